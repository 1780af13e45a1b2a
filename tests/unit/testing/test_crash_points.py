import os

from headrace.runtime.entropy import SeededEntropy
from headrace.testing.crash_points import CrashPoint, each_power_loss
from headrace.testing.disk import Moment, SimulatedDisk
from headrace.testing.filesystem import SimulatedFilesystem


def replace_file(disk, careful=True):
    """Write a new version beside the old and rename it into place."""
    files = SimulatedFilesystem(disk)
    for version in (b"1" * 700, b"2" * 700):
        fd = files.open("/new", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        files.pwrite(fd, version, 0)
        if careful:
            files.fsync(fd)
        files.close(fd)
        files.rename("/new", "/file")
        files.fsync_directory("/")


def broken(disk):
    if "file" not in disk.root.entries:
        return False  # the first version was never finished
    return bytes(disk.find_file("/file").content) not in (b"1" * 700, b"2" * 700)


def test_every_durable_write_is_interrupted_in_every_way():
    points = [point for point, _ in each_power_loss(replace_file, seeds=[7])]
    assert points == [CrashPoint(7, n, moment) for n in (1, 2, 3, 4) for moment in Moment]


def test_a_careful_replacement_survives_every_power_loss():
    for point, disk in each_power_loss(replace_file, seeds=range(10)):
        assert not broken(disk), point


def test_a_careless_replacement_is_caught():
    careless = list(each_power_loss(lambda disk: replace_file(disk, careful=False), seeds=range(10)))
    assert any(broken(disk) for _, disk in careless)


def test_a_crash_point_repeats():
    def images():
        return [
            sorted((path, bytes(file.content)) for path, file in disk.files())
            for _, disk in each_power_loss(replace_file)
        ]

    assert images() == images()


def test_the_disk_can_be_used_again_afterwards():
    for _, disk in each_power_loss(replace_file, seeds=[1]):
        replace_file(disk)
        assert bytes(disk.find_file("/file").content) == b"2" * 700


def test_a_scenario_that_survives_without_power_loss_has_the_expected_count():
    disk = SimulatedDisk(SeededEntropy(0))
    replace_file(disk)
    assert disk.statistics().durable_writes == 4
