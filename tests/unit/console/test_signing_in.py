from headrace.security.permission import Permission
from headrace.security.resources import ROOT
from tests.unit.console.conftest import append, browsing, open_console, sign_in, token_of
from tests.unit.controller.known_users import EVERYTHING, KnownUsers, basic

READ, UPDATE = Permission.READ, Permission.READ_UPDATE
ORDERS = "prn::/scope:demo/stream:orders"


def people():
    return KnownUsers(
        admin={EVERYTHING: UPDATE}, ann={ORDERS: READ}, bob={ROOT: READ}, eve={"prn::/scope:demo": READ}
    )


async def test_a_stranger_is_shown_the_form_and_then_the_page(world):
    async with open_console(world, orders=1) as controller, browsing(controller, people()) as web:
        for place in ("/console", "/console/streams/demo/orders/events?from=tail", "/console/streams/no/no"):
            answer = await web.get(place)
            assert answer.status_code == 303
            assert "www-authenticate" not in answer.headers
        form = await web.get((await web.get("/console/streams/demo/orders")).headers["location"])
        assert ('name="user"' in form.text, 'name="password"' in form.text) == (True, True)
        answer = await sign_in(web, "ann", to="/console/streams/demo/orders")
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/streams/demo/orders")
        cookie = answer.headers["set-cookie"].lower()
        for part in ("httponly", "samesite=strict", "path=/console"):
            assert part in cookie
        assert "secure" not in cookie
        assert "ann" in (await web.get("/console/streams/demo/orders")).text


async def test_with_tls_the_cookie_goes_by_nothing_else(world):
    async with open_console(world) as controller, browsing(controller, people(), encrypted=True) as web:
        assert "secure" in (await sign_in(web, "ann")).headers["set-cookie"].lower()


async def test_wrong_credentials_open_nothing(world):
    async with open_console(world, orders=1) as controller, browsing(controller, people()) as web:
        for user, password in (
            ("ann", "wrong"),
            ("nobody", "secret"),
            ("", ""),
            ("a:b", "x"),
            ("x" * 2000, "y"),
        ):
            answer = await sign_in(web, user, password)
            assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)
            assert 'role="alert"' in answer.text
            assert password == "" or f'"{password}"' not in answer.text
        web.cookies.set("headrace-console-10080", "0" * 64)
        assert (await web.get("/console/streams")).status_code == 303


async def test_after_signing_in_nobody_is_led_elsewhere(world):
    async with open_console(world) as controller, browsing(controller, people()) as web:
        for to in ("https://evil.example/", "//evil.example", "/docs", "/console/\\evil", "/console/\r\nx"):
            assert (await sign_in(web, "ann", to=to)).headers["location"] == "/console/"


async def test_a_session_ends_with_its_user_and_with_signing_out(world):
    users = people()
    async with open_console(world, orders=1) as controller, browsing(controller, users) as web:
        await sign_in(web, "ann")
        page = await web.get("/console/streams/demo/orders")
        assert page.status_code == 200
        kept = dict(web.cookies)
        answer = await web.post("/console/sign-out", data={"token": token_of(page)})
        assert answer.status_code == 303
        web.cookies.update(kept)
        assert (await web.get("/console/streams/demo/orders")).status_code == 303
        await sign_in(web, "ann")
        del users.users["ann"]
        assert (await web.get("/console/streams/demo/orders")).status_code == 303


async def test_pages_show_what_may_be_read_and_forms_what_may_be_changed(world):
    async with open_console(world, orders=1, audit=1) as controller:
        async with browsing(controller) as anybody:
            await append(anybody, "orders", "hello")
        async with browsing(controller, people()) as web:
            await sign_in(web, "ann")
            listed = (await web.get("/console/streams")).text
            assert ("/demo/orders" in listed, "/demo/audit" in listed) == (True, False)
            page = await web.get("/console/streams/demo/orders")
            assert (page.status_code, "/change" in page.text) == (200, False)
            assert "hello" in (await web.get("/console/streams/demo/orders/events")).text
            assert (await web.get("/console/streams/demo/audit")).status_code == 403
            assert (await web.get("/console/health")).status_code == 403
            fields = {"token": token_of(page), "change": "seal", "name": "demo/orders"}
            assert (await web.post("/console/streams/demo/orders/change", data=fields)).status_code == 403
            stream = await controller.context.directory.get("demo", "orders")
            assert stream.row.state.name == "ACTIVE"
            await sign_in(web, "admin")
            page = await web.get("/console/streams/demo/orders")
            assert "/change" in page.text
            assert (await web.get("/console/health")).status_code == 200
            await sign_in(web, "eve")
            assert (await web.get("/console/streams/demo/orders")).status_code == 403


async def test_a_token_of_one_session_is_none_of_another(world):
    async with open_console(world, orders=1) as controller, browsing(controller, people()) as web:
        await sign_in(web, "admin")
        first = token_of(await web.get("/console/streams/demo/orders"))
        await sign_in(web, "admin")
        fields = {"token": first, "change": "seal", "name": "demo/orders"}
        assert (await web.post("/console/streams/demo/orders/change", data=fields)).status_code == 403


async def test_the_cookie_is_none_for_rest_and_basic_is_none_for_the_console(world):
    async with open_console(world) as controller, browsing(controller, people()) as web:
        await sign_in(web, "admin")
        assert (await web.get("/v1/scopes")).status_code == 401
        web.cookies.clear()
        headers = {"authorization": basic("admin")}
        assert (await web.get("/console/streams", headers=headers)).status_code == 303
