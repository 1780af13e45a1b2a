"""Runs the blocks of a page in order, as a reader would: in one directory and namespace, against a server."""

import ast
import asyncio
import contextlib
import inspect
import io
import os
import shlex
import shutil
import subprocess
from unittest import mock

from headrace import connect
from headrace.cli.main import main
from headrace.testing import LocalServer
from tests.docs.command_line import OF_SHELLS, make_command, run_pipeline
from tests.docs.page_blocks import is_printed

SHELL = shutil.which("bash") or "/bin/sh"


class PageRunner:
    """One page's directory, namespace, loop and servers.

    The default addresses of a server stand for those of ``server``; a line ``headrace standalone ...`` starts
    a server of its own, which answers there from then on.
    """

    def __init__(self, directory, server, namespace=()):
        self.directory = directory
        self.namespace = {"__name__": "__page__", **dict(namespace)}
        self._server = self._shared = server
        self._loop = asyncio.Runner()
        self._own = contextlib.ExitStack()
        self.environment = make_command(directory)

    def close(self):
        """End what the page began, and leave an empty server to the next one."""
        self._loop.close()
        self._own.close()
        with connect(self._shared.uri) as client:
            for scope in set(client.list_scopes()) - {"_system"}:
                client.delete_scope(scope, recursive=True)

    @property
    def uri(self):
        """Of the server that answers now."""
        return self._server.uri

    def run(self, block):
        """Run a block and return what it printed on standard output."""
        with contextlib.chdir(self.directory):
            return self._run_python(block) if block.language == "python" else self._run_lines(block.code)

    def here(self, text):
        """Return a text with a test's places instead of those of the page: servers, stores, files."""
        text = text.replace("s3://", f"file://{self.directory}/buckets/")
        text = text.replace("file:///var", f"file://{self.directory}/root/var")
        for port, part in ((9090, "controller"), (10080, "rest"), (12345, "segmentstore")):
            for host in ("localhost", "127.0.0.1"):
                text = text.replace(f"{host}:{port}", self._server.addresses[part])
        return text

    # ------------------------------------------------------------------------------------- python

    def _run_python(self, block):
        tree = compile(
            "\n" * (block.line - 1) + self.here(block.code),
            str(self.directory / "page.py"),
            "exec",
            ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            dont_inherit=True,
        )
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            result = eval(tree, self.namespace)
            if inspect.iscoroutine(result):
                self._loop.run(result)
        return printed.getvalue()

    # ------------------------------------------------------------------------------------- command lines

    def _run_lines(self, code):
        joined = code.replace("\\\n", " ")
        lines = [line for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        return "".join(self._run_line(line) for line in lines)

    def _run_line(self, line):
        if line.startswith("headrace standalone"):
            self._start(shlex.split(line.removesuffix("&"), comments=True)[2:])
            return ""
        environment = {**self.environment, "HEADRACE_URI": self._server.uri}
        line = self.here(line)
        words = shlex.split(line, comments=True)
        if words[0] == "headrace" and OF_SHELLS.isdisjoint(line):
            return _run_here(words[1:], environment)
        done = run_pipeline(line, cwd=self.directory, env=environment) or subprocess.run(
            [SHELL, "-c", line],
            cwd=self.directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _start(self, arguments):
        """Start a server with the options of a line; its directory and ports are those of a test."""
        self._own.close()
        self._server = self._own.enter_context(LocalServer(self.directory / "server", *arguments))


def run_page(runner, name, blocks):
    """Run what a page does not exempt, and compare what it prints."""
    for block in blocks:
        if block.reason:
            continue
        try:
            printed = runner.run(block)
        except BaseException as error:
            error.add_note(f"{name}, block at line {block.line}")
            raise
        if block.output is not None:
            assert is_printed(block.output, printed), f"{name}, line {block.line} printed\n{printed}"


def _run_here(words, environment):
    """Run the command in this process, and return what it printed on standard output."""
    with (
        mock.patch.dict(os.environ, environment),
        contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) as printed,
        contextlib.redirect_stderr(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) as said,
    ):
        code = main(words)
        texts = []
        for stream in (printed, said):
            stream.flush()
            texts.append(stream.buffer.getvalue().decode())
    assert code == 0, f"headrace {words}\n{texts}"
    return texts[0]
