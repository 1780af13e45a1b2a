"""The console in a real browser: what it runs, asks and says, with and without script."""

import json
import shutil
import urllib.request
import warnings

import pytest

from headrace.testing import LocalServer
from tests.secure_server import USERS, SecureServer

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        warnings.warn("NO CHROMIUM: the console is not looked at in a browser", stacklevel=1)
        pytest.skip("there is no chromium here")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def post(server, path, body):
    request = urllib.request.Request(
        server.rest_url + path, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_a_person_looks_at_a_stream_that_splits(browser):
    from playwright.sync_api import expect

    with LocalServer(None, "--in-memory") as server:
        post(server, "/v1/scopes", {"scopeName": "demo"})
        scaling = {"type": "FIXED_NUM_SEGMENTS", "minSegments": 2}
        post(server, "/v1/scopes/demo/streams", {"streamName": "orders", "scalingPolicy": scaling})
        post(server, "/v1/scopes/demo/streams/orders/events", {"data": "<b>x</b><script>evil()</script>"})
        said, asked = [], set()
        for script in (True, False):
            context = browser.new_context(java_script_enabled=script)
            page = context.new_page()
            page.on("console", lambda message: said.append(message.text))
            page.on("pageerror", lambda error: said.append(str(error)))
            page.on("request", lambda request: asked.add(request.url.split("/")[2]))
            page.goto(f"{server.rest_url}/console/")
            page.get_by_role("link", name="demo/orders").click()
            expect(page.locator("rect.segment")).to_have_count(2 if script else 4)
            if script:
                # Another page splits a segment: this one shows it by itself.
                other = context.new_page()
                other.goto(page.url)
                other.get_by_text("Split a segment").click()
                other.get_by_role("button", name="Split").click()
                other.close()
                page.bring_to_front()
                expect(page.locator("rect.segment")).to_have_count(4, timeout=60_000)
            page.get_by_role("link", name="Events", exact=True).click()
            expect(page.locator(".events pre")).to_have_count(1 if script else 2)
            if script:
                page.mouse.move(1, 1)
                post(server, "/v1/scopes/demo/streams/orders/events", {"data": "later", "key": "k"})
                expect(page.locator(".events pre")).to_have_count(2, timeout=60_000)
                page.get_by_role("button", name="Pause").click()
                expect(page.get_by_role("button", name="Go on")).to_be_visible()
            page.get_by_role("link", name="From the head").click()
            expect(page.locator(".events pre").first).to_have_text("<b>x</b><script>evil()</script>")
            context.close()
        assert (said, asked) == ([], {server.rest_url.split("/")[2]})


def test_with_users_and_tls_people_sign_in_and_see_what_they_may(browser, tmp_path):
    from playwright.sync_api import expect

    with SecureServer(tmp_path) as server:
        with server.connect_blocking() as client:
            client.create_scope("sales")
            client.create_stream("sales/shared")
        context = browser.new_context(ignore_https_errors=True)
        page, said = context.new_page(), []
        page.on("console", lambda message: said.append(message.text))
        place = f"{server.rest_url}/console/streams/sales/shared"
        page.goto(place)

        def sign_in(user, password):
            page.get_by_label("User").fill(user)
            page.get_by_label("Password").fill(password)
            page.get_by_role("button", name="Sign in").click()

        sign_in("reader", "wrong")
        expect(page.get_by_role("alert")).to_be_visible()
        sign_in("reader", USERS["reader"][0])
        expect(page).to_have_url(place)
        expect(page.locator("rect.segment")).to_have_count(1)
        expect(page.get_by_text("Seal", exact=True)).to_have_count(0)
        (cookie,) = context.cookies()
        assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Strict")
        page.get_by_role("button", name="Sign out").click()
        page.goto(place)
        sign_in("admin", USERS["admin"][0])
        page.get_by_text("Seal", exact=True).first.click()
        page.get_by_label("Type sales/shared").last.fill("sales/shared")
        page.get_by_role("button", name="Seal").click()
        expect(page.get_by_text("sealed", exact=True)).to_be_visible()
        context.close()
        assert said == []
