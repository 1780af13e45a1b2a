from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from headrace.errors import InvalidArgumentError
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.settings import describe, flatten, internal, tunable, validate, walk
from headrace.runtime.settings_sources import load
from headrace.testing.simulated_settings import simulated


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """How one container batches operations."""

    frame_bytes_max: int = tunable(
        1 << 20, low=1024, high=8 << 20, simulate=(1024, 4096), help="Content of a frame."
    )
    frames_in_flight_max: int = tunable(4, low=1, high=64, simulate=(1, 2), help="Not yet | acknowledged.")
    ratio: float = tunable(0.5, low=0.0, high=1.0)
    linger_ms: int = tunable(0, low=0)
    timeout_s: float = tunable(30.0, low=0.1)
    step: int = internal(8, simulate=(1, 2), help="Ours.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """One process."""

    durable_log: LogConfig = field(default_factory=LogConfig)
    containers: int = tunable(4, low=1, simulate=(1, 2, 3))

    def check(self):
        if self.containers * self.durable_log.frames_in_flight_max > 100:
            raise InvalidArgumentError("containers x frames_in_flight_max exceeds 100")


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeConfig:
    """Nothing here is a setting."""

    inner: int = internal(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RootConfig:
    data_dir: Path = tunable(Path("headrace-data"), help="Where everything lives.")  # noqa: RUF009 - a Path is immutable
    format: Literal["human", "json"] = tunable("human")
    hosts: tuple[str, ...] = tunable(())
    spill: bool = tunable(False)
    limit_bytes: int | None = tunable(None, low=1)
    password: str = tunable("", secret=True)
    whole: WholeConfig = field(default_factory=WholeConfig)
    store: StoreConfig = field(default_factory=StoreConfig)


def test_nothing_given_is_the_default_configuration():
    assert load(RootConfig) == RootConfig()


def test_later_sources_win_file_environment_overrides(tmp_path):
    file = tmp_path / "headrace.toml"
    file.write_text(
        'data_dir = "/var"\nhosts = ["a", "b"]\n[store]\ncontainers = 2\n'
        "[store.durable_log]\nframe_bytes_max = 2048\nframes_in_flight_max = 2\nratio = 1\n"
    )
    config = load(
        RootConfig,
        file=file,
        environment={
            "HEADRACE_STORE__DURABLE_LOG__FRAMES_IN_FLIGHT_MAX": "3",
            "HEADRACE_SPILL": "yes",
            "HEADRACE_STORE__CONTAINERS": "5",
            "HEADRACE_URI": "tcp://localhost:9090",
            "PATH": "/bin",
        },
        overrides={"store.containers": 6, "format": None, "limit_bytes": "64 KiB"},
        other_variables={"HEADRACE_URI"},
    )
    assert config.data_dir == Path("/var")
    assert config.hosts == ("a", "b")
    assert config.spill is True
    assert config.limit_bytes == 65536
    assert config.store.containers == 6
    assert config.store.durable_log == LogConfig(frame_bytes_max=2048, frames_in_flight_max=3, ratio=1.0)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"HEADRACE_STORE__CONTAINERS": "0"}, r"store.containers = 0 is outside >= 1 \(in the environment\)"),
        (
            {"HEADRACE_STORE__DURABLE_LOG__FRAME_BYTES_MAX": "16 MiB"},
            r"frame_bytes_max = 16777216 is outside \[1024, 8388608\]",
        ),
        ({"HEADRACE_STORE__DURABLE_LOG__RATIO": "nan"}, "ratio = nan is outside"),
        ({"HEADRACE_STORE__CONTAINERS": "many"}, "store.containers = 'many' is not int"),
        ({"HEADRACE_STORE__CONTAINERS": "1.5"}, "is not int"),
        ({"HEADRACE_SPILL": "perhaps"}, "spill = 'perhaps' is not bool"),
        ({"HEADRACE_FORMAT": "xml"}, "format = 'xml' is not 'human' or 'json'"),
        (
            {"HEADRACE_STORE__DURABLE_LOGS__RATIO": "0.1"},
            "HEADRACE_STORE__DURABLE_LOGS__RATIO .* no setting; known are HEADRACE_STORE__DURABLE_LOG__RATIO",
        ),
        ({"HEADRACE_SPIL": "yes"}, "HEADRACE_SPIL in the environment is no setting; known are HEADRACE_SPI"),
        ({"HEADRACE_": "yes"}, "HEADRACE_ in the environment is no setting; known are HEADRACE_DATA_DIR, "),
        ({"HEADRACE_URI": "tcp://h:1"}, "HEADRACE_URI in the environment is no setting"),
        ({"HEADRACE_LIMIT_PORT": "tcp"}, "HEADRACE_LIMIT_PORT in the environment is no setting"),
        ({"HEADRACE_LIMIT_BYTES": "-1"}, "limit_bytes = -1 is outside >= 1"),
        ({"HEADRACE_STORE__DURABLE_LOG__LINGER_MS": "0.5ms"}, "linger_ms = '0.5ms' is not int: .*whole"),
    ],
)  # fmt: skip
def test_a_wrong_variable_is_named_with_its_value_and_what_is_allowed(environment, message):
    with pytest.raises(InvalidArgumentError, match=message):
        load(RootConfig, environment=environment)


def test_variables_that_kubernetes_makes_for_a_service_of_our_name_mean_nothing():
    address = "tcp://10.0.0.1:9090"
    links = {
        "HEADRACE_SERVICE_HOST": "10.0.0.1",
        "HEADRACE_SERVICE_PORT": "9090",
        "HEADRACE_SERVICE_PORT_REST_API": "10080",
        "HEADRACE_PORT": address,
        "HEADRACE_PORT_9090_TCP": address,
        "HEADRACE_PORT_9090_TCP_PROTO": "tcp",
        "HEADRACE_PORT_9090_TCP_PORT": "9090",
        "HEADRACE_PORT_9090_TCP_ADDR": "10.0.0.1",
        "HEADRACE_STORE_PORT": address,
    }
    assert load(RootConfig, environment=links) == RootConfig()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour = 1", "unknown setting 'colour' in .*toml"),
        (
            "[store.durable_log]\nframe_byte_max = 1",
            "unknown setting 'store.durable_log.frame_byte_max'.*frame_bytes_max",
        ),
        ("store = 3", r"store in .* is a section: write \[store\]"),
        ("[data_dir]\nx = 1", "data_dir = {'x': 1} is not Path"),
        ("[store]\ncontainers = true", "containers = True is not int"),
        ("hosts = [1]", "hosts = .* is not list of str"),
        ("spill = 1", "spill = 1 is not bool"),
        ("x = ", "toml"),
        ("[store]\ncontainers = 50", "exceeds 100"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_the_reason(tmp_path, text, message):
    file = tmp_path / "headrace.toml"
    file.write_text(text)
    with pytest.raises(InvalidArgumentError, match=message):
        load(RootConfig, file=file)


def test_a_missing_binary_or_huge_file_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="cannot read settings"):
        load(RootConfig, file=tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgumentError, match=r"binary\.toml"):
        load(RootConfig, file=tmp_path / "binary.toml")
    (tmp_path / "huge.toml").write_bytes(b"#" * (2 << 20))
    with pytest.raises(InvalidArgumentError, match="no settings file"):
        load(RootConfig, file=tmp_path / "huge.toml")


def test_units_are_understood_where_the_name_carries_one():
    values = {
        "store.durable_log.frame_bytes_max": "256 KiB",
        "store.durable_log.linger_ms": "1.5s",
        "store.durable_log.timeout_s": "2min",
    }
    log = load(RootConfig, overrides=values).store.durable_log
    assert (log.frame_bytes_max, log.linger_ms, log.timeout_s) == (262144, 1500, 120.0)
    with pytest.raises(InvalidArgumentError):
        load(RootConfig, overrides={"store.containers": "4 KiB"})


def test_an_optional_setting_can_be_switched_off_again():
    assert load(RootConfig, environment={"HEADRACE_LIMIT_BYTES": "none"}).limit_bytes is None


def test_constructing_is_free_and_validate_is_strict():
    tiny = RootConfig(store=StoreConfig(durable_log=LogConfig(frame_bytes_max=64)))
    with pytest.raises(InvalidArgumentError, match=r"store.durable_log.frame_bytes_max = 64"):
        validate(tiny)


def test_simulation_draws_legal_configurations_that_repeat_with_the_seed_and_differ_between_seeds():
    drawn = [simulated(RootConfig, SeededEntropy(seed)) for seed in range(50)]
    assert drawn == [simulated(RootConfig, SeededEntropy(seed)) for seed in range(50)]
    assert {c.store.containers for c in drawn} == {1, 2, 3, 4}
    assert {c.store.durable_log.frame_bytes_max for c in drawn} == {1024, 4096, 1 << 20}
    for config in drawn:
        validate(config)


def test_simulation_redraws_what_the_relations_forbid_and_reports_what_no_draw_can_mend():
    @dataclass(frozen=True)
    class Related:
        low: int = tunable(1, simulate=(5, 6))
        high: int = tunable(2, simulate=(7,))

        def check(self):
            if self.low > self.high:
                raise InvalidArgumentError("low > high")

    assert {simulated(Related, SeededEntropy(s)).low for s in range(30)} == {1, 5, 6}

    @dataclass(frozen=True)
    class Wrong:
        a: int = tunable(1, high=3, simulate=(9,))

    with pytest.raises(InvalidArgumentError, match="a = 9 is outside <= 3"):
        simulated(Wrong, SeededEntropy(0))


def test_the_reference_page_names_every_setting_default_range_and_variable():
    page = describe(RootConfig)
    for setting in walk(RootConfig):
        assert f"`{setting.variable('HEADRACE')}`" in page
    assert "## `store.durable_log`" in page
    assert "How one container batches operations." in page
    assert (
        "| `frames_in_flight_max` | int | 4 | [1, 64] | Not yet \\| acknowledged. "
        "| `HEADRACE_STORE__DURABLE_LOG__FRAMES_IN_FLIGHT_MAX` |" in page
    )
    assert "| `limit_bytes` | int or none | none | >= 1 |" in page


def test_what_is_internal_is_chosen_by_tests_and_simulation_and_by_nobody_else():
    key = "store.durable_log.step"
    assert key not in flatten(RootConfig())
    assert "step" not in describe(RootConfig)
    assert "whole" not in describe(RootConfig)  # a section without settings
    for source in ({"overrides": {key: 1}}, {"environment": {"HEADRACE_STORE__DURABLE_LOG__STEP": "1"}}):
        with pytest.raises(InvalidArgumentError, match=r"unknown setting|is no setting"):
            load(RootConfig, **source)
    assert LogConfig(step=5).step == 5
    assert {simulated(LogConfig, SeededEntropy(seed)).step for seed in range(50)} == {1, 2, 8}


def test_flatten_lists_every_value_and_masks_secrets():
    values = flatten(RootConfig(password="hunter2"))
    assert values["store.durable_log.frame_bytes_max"] == 1 << 20
    assert values["password"] == "***"
    assert list(values) == [setting.key for setting in walk(RootConfig)]


@pytest.mark.parametrize(
    "text",
    [
        f"store.durable_log.timeout_s = 1{'0' * 400}",
        f"store.durable_log.timeout_s = '1{'0' * 400} s'",
        f"store.containers = {'[' * 100_000}",
    ],
)
def test_a_number_that_nothing_can_hold_is_refused_like_any_other(tmp_path, text):
    file = tmp_path / "headrace.toml"
    file.write_text(text)
    with pytest.raises(InvalidArgumentError):
        load(RootConfig, file=file)
