"""Pages behind proxies: which origins may connect, and what address browsers are given."""

from __future__ import annotations

from typing import Any

import pytest

import bvh
from bvh.apps.page_server import allowed_origins, public_url
from tests.commands import Run

viser = pytest.importorskip("viser")
client = pytest.importorskip("websockets.sync.client")
websockets = pytest.importorskip("websockets.exceptions")

HUB = "https://hub.example.org"
TREE = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove what the machine of the tests may have set."""
    for name in ("BVH_ORIGINS", "BVH_URL", "JUPYTERHUB_SERVICE_PREFIX"):
        monkeypatch.delenv(name, raising=False)


def accepts(page: Any, origin: str | None) -> bool:
    """Tell whether a page of an origin can open its connection."""
    to, spoken = f"ws://127.0.0.1:{page.port}", [f"viser-v{viser.__version__}"]
    try:
        client.connect(to, origin=origin, subprotocols=spoken, proxy=None, open_timeout=60).close()
    except websockets.InvalidStatus as refused:
        assert refused.response.status_code == 403
        return False
    return True


def test_origins_that_are_given_may_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those alone, whole, beside those of this machine on any port, which editors forward."""
    monkeypatch.setenv("BVH_ORIGINS", "https://one.example, https://two.example:444/")
    with bvh.view(TREE, port=0, origins=[f"{HUB}/"]) as viewer:
        ours = ("http://localhost:53211", "https://127.0.0.1:8080", None)
        for origin in (HUB, "https://one.example", "https://two.example:444", viewer.url, *ours):
            assert accepts(viewer, origin), origin
        for origin in (
            "http://hub.example.org", f"{HUB}:8443", "https://evil.hub.example.org", "null",
            f"{HUB}.evil.example", "https://two.example", "vscode-webview://1a2b",
        ):  # fmt: skip
            assert not accepts(viewer, origin), origin


def test_origins_of_a_server_for_all_machines() -> None:
    """It asks nobody, unless it is told whom it may trust."""
    with bvh.ray_lab(host="0.0.0.0", port=0, origins=[HUB]) as lab:
        assert accepts(lab, HUB) and not accepts(lab, "http://here.example")


def test_the_address_of_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of notebooks have it, with the port; its own pages may connect."""
    with bvh.view(TREE, port=0, url=HUB.replace("hub", "Hub") + "/me/proxy/{port}") as viewer:
        assert viewer.url == f"https://Hub.example.org/me/proxy/{viewer.port}/"
        assert f'<iframe src="{viewer.url}"' in viewer._repr_html_()
        assert accepts(viewer, HUB) and not accepts(viewer, "https://example.org")
    with bvh.ray_lab(port=0, url="http://Machine:{port}") as lab:
        assert lab.url == f"http://Machine:{lab.port}/"
        assert accepts(lab, f"http://machine:{lab.port}") and not accepts(lab, "http://other:1")
        assert not accepts(lab, "http://machine.org:1")
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/me/")
    with bvh.ray_lab(port=0) as lab:
        # Which host the notebook has is known to its browser alone.
        assert f'<iframe src="/user/me/proxy/{lab.port}/"' in lab._repr_html_()
        assert lab.url == f"http://127.0.0.1:{lab.port}" and not accepts(lab, HUB)
    monkeypatch.setenv("BVH_URL", "/absolute/{port}/")
    assert public_url(None) == ("/absolute/{port}/", "BVH_URL")
    assert public_url("/here") == ("/here/", "url")


@pytest.mark.parametrize(
    "origin", ["*", "hub.example.org", "https://", f"{HUB}/lab", "https://*.org", "https://a:b", 3]
)
def test_what_is_no_origin_is_refused(origin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pattern, path or bare name; the variable is named where it has it."""
    with pytest.raises(ValueError, match=r"origins must be origins such as 'https://hub"):
        bvh.view(TREE, port=0, origins=[origin])
    with pytest.raises(TypeError, match="origins must be a sequence"):
        allowed_origins(HUB)
    monkeypatch.setenv("BVH_ORIGINS", str(origin))
    with pytest.raises(ValueError, match="BVH_ORIGINS must be origins"):
        allowed_origins(None)


@pytest.mark.parametrize(
    "url", ["", "proxy/1/", "//evil.example/", "ftp://a/", "javascript:alert(1)", '/a"b/', "/a?b"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    """An address or a path, that can be written into a page."""
    with pytest.raises(ValueError, match="url must be an address or a path"):
        bvh.ray_lab(port=0, url=url)


def test_commands_take_origins(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--origin`, as often as there are some, and `--url`."""
    pytest.importorskip("typer")
    pytest.importorskip("rich")
    seen: list[Any] = []

    def wait(page: Any) -> None:
        seen.append([accepts(page, origin) for origin in (HUB, "https://b.example", "http://c")])
        raise KeyboardInterrupt

    monkeypatch.setattr("bvh.apps.page_server.Page.wait", wait)
    TREE.save("tree.bvh")
    options = ("--port", 0, "--no-open", "--origin", HUB, "--origin", "https://b.example")
    for command in (("view", "tree.bvh"), ("lab",)):
        code, out, _ = run(*command, *options, "--url", "http://c/{port}/")
        assert code == 0 and "http://c/" in out
        assert seen.pop() == [True, True, True]
    code, _, err = run("view", "tree.bvh", "--origin", "anyone")
    assert code == 2 and "origins must be origins" in err
