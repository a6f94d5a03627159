"""Who may see and change what."""

import ipaddress
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fedactive.errors import UserError
from fedactive.sites import sockets
from fedactive.sites.labels import annotators
from fedactive.sites.page import allowance, guard
from fedactive.sites.page.allowance import Allowance
from fedactive.sites.page.app import create_app
from fedactive.sites.page.known_hosts import find_known_hosts
from fedactive.sites.page.server import PageServer

PLACES = ["/images/0", "/images/0/values", "/api/next", "/api/history", "/api/guess/0"]


@pytest.fixture
def stranger(site):
    site.store.rounds.open("run", 1, range(5), "logo", None)
    with httpx.Client(base_url=site.address) as client:
        yield client


def test_nothing_without_a_session(stranger):
    for place in PLACES:
        assert stranger.get(place).status_code == 401
    for place in ("/", "/overview", "/people", "/late", "/disagreements", "/guide/0/0", "/label-studio.json"):
        answer = stranger.get(place)
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    for place in ("/api/answer", "/api/undo", "/api/gold", "/api/people", "/api/label-studio"):
        assert stranger.post(place, json={"sample": 0, "label": 0}).status_code == 401
    assert stranger.get("/docs").status_code == stranger.get("/openapi.json").status_code == 404


def test_the_cookie_is_strict_and_cannot_be_made_up(site, stranger):
    answer = stranger.post("/sign-in", data={"token": site.token("ada")})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    for flag in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"):
        assert flag in cookie
    assert "Secure" not in cookie  # plain HTTP on loopback
    assert stranger.get("/images/0").status_code == 200
    ((name, value),) = stranger.cookies.items()
    (stored,) = site.store.database.one("SELECT key_hash FROM sessions")
    for forged in (stored, value[:-1] + ("0" if value[-1] != "0" else "1"), value[:-1], "", "a.b", "é"):
        headers = {"Cookie": f"{name}={forged}".encode()}
        assert httpx.get(site.address + "/images/0", headers=headers).status_code == 401


def test_sessions_end(site, signed_in, monkeypatch):
    site.store.rounds.open("run", 1, range(5), "logo", None)
    client = signed_in("ada")
    with monkeypatch.context() as patch:
        later = time.time() + annotators.SECONDS_SIGNED_IN + 1
        patch.setattr(annotators.time, "time", lambda: later)
        assert client.get("/images/0").status_code == 401
    assert client.get("/images/0").status_code == 200
    site.store.annotators.renew("ada")
    assert client.get("/images/0").status_code == 401
    client = signed_in("bob")
    site.store.annotators.remove("bob")
    assert client.get("/images/0").status_code == 401


@pytest.mark.parametrize("days", [-2, 2])
def test_a_clock_that_jumps_costs_a_sign_in_and_no_answer(site, signed_in, monkeypatch, days):
    site.store.rounds.open("run", 1, range(3), "logo", None)
    before = signed_in("ada")
    before.post("/api/answer", json={"sample": 0, "label": 1, "seconds": 2.0}).raise_for_status()
    real = time.time
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: real() + days * 86_400)
        assert before.post("/api/answer", json={"sample": 1, "label": 1}).status_code == 401
        meanwhile = signed_in("ada")
        answer = meanwhile.post("/api/answer", json={"sample": 1, "label": 1, "seconds": 2.0})
        assert answer.raise_for_status().json()["pace"] == 2.0
    assert meanwhile.get("/api/next").status_code == 401
    assert before.post("/api/answer", json={"sample": 2, "label": 1}).raise_for_status()
    assert site.store.labels() == {0: 1, 1: 1, 2: 1}
    assert [one["sample"] for one in before.get("/api/history").json()] == [2, 1, 0]


def test_signing_out(site, signed_in):
    client = signed_in("ada")
    assert client.post("/sign-out").status_code == 403
    answer = client.post("/sign-out", data={"csrf": client.headers["X-CSRF-Token"]})
    assert answer.headers["location"] == "/sign-in"
    assert client.get("/api/next").status_code == 401


def test_who_signs_out_ends_the_session_for_whoever_has_the_cookie(site, signed_in):
    client, elsewhere = signed_in("ada"), signed_in("ada")
    stolen = httpx.Client(base_url=site.address, cookies=dict(client.cookies))
    assert stolen.get("/api/next").status_code == 200
    client.post("/sign-out", data={"csrf": client.headers["X-CSRF-Token"]})
    assert stolen.get("/api/next").status_code == 401
    assert elsewhere.get("/api/next").status_code == 200
    stolen.close()


def test_forged_requests_are_refused(site, signed_in):
    site.store.rounds.open("run", 1, range(5), "logo", None)
    client, other = signed_in("ada"), signed_in("bob")
    given = {"sample": 0, "label": 0}
    token = client.headers.pop("X-CSRF-Token")
    for wrong in (
        {},
        {"X-CSRF-Token": ""},
        {"X-CSRF-Token": "x" * 64},
        {"X-CSRF-Token": other.headers["X-CSRF-Token"]},
    ):
        for place in ("/api/answer", "/api/undo", "/api/gold", "/api/people/remove", "/api/label-studio"):
            assert client.post(place, json=given, headers=wrong).status_code == 403
    good = {"X-CSRF-Token": token}
    for foreign in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert client.post("/api/answer", json=given, headers=good | foreign).status_code == 403
        assert client.post("/sign-in", data={"token": site.token("ada")}, headers=foreign).status_code == 403
    assert site.store.labels() == {}
    assert client.post("/api/answer", json=given, headers=good | {"Origin": site.address}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/images/../labels.sqlite",
        "/images/..%2Flabels.sqlite",
        "/images/%2e%2e/%2e%2e/etc/passwd",
        "/static/../app.py",
        "/static/..%2Fapp.py",
        "/static/%2e%2e/session.py",
        "/static//etc/passwd",
        "/images/-1",
        "/images/7",  # exists, but nobody asked for it
        "/images/999999999999999999999999",
    ],
)
def test_no_path_leads_out(site, signed_in, path):
    site.store.rounds.open("run", 1, range(5), "logo", None)
    client = signed_in("ada")
    # httpx would tidy the path up: say it to the socket as it is.
    request = client.build_request("GET", "/")
    request.url = request.url.copy_with(raw_path=path.encode())
    answer = client.send(request)
    assert answer.status_code in (404, 422)
    assert b"import" not in answer.content
    assert b"root:" not in answer.content


def test_guessing_is_slowed_down(site, stranger):
    answers = [stranger.post("/sign-in", data={"token": f"guess {k}"}).status_code for k in range(7)]
    assert answers == [403] * 5 + [429] * 2
    wrong = stranger.post("/api/sign-in", json={"token": "guess"})
    assert 0 < int(wrong.headers["retry-after"]) <= 13
    assert "Too many wrong tokens" in wrong.json()["error"]
    # Whoever shares the address with a guesser gets in.
    assert stranger.post("/api/sign-in", json={"token": site.token("ada")}).status_code == 200


def test_one_persons_many_requests_are_not_anothers(site, signed_in):
    ada, bob = signed_in("ada"), signed_in("bob")
    site.server.server.config.app.state.desk.sessions.requests = Allowance(at_once=3, per_minute=0.6)
    assert [ada.get("/api/next").status_code for _ in range(4)] == [200, 200, 200, 429]
    assert bob.get("/api/next").status_code == 200  # from the same address
    refused = ada.post("/api/answer", json={"sample": 0, "label": 1})
    assert refused.status_code == 429
    assert 50 < int(refused.headers["retry-after"]) <= 101
    assert signed_in("ada").get("/api/next").status_code == 429  # another session is no way around


def test_waiting_ends(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(allowance.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(allowance, "MOST_KNOWN", 3)
    five = Allowance(at_once=5, per_minute=5)
    assert [five.take("a") for _ in range(6)] == [0] * 5 + [13]
    assert five.take("b") == 0
    now[0] += 13
    assert [five.take("a") for _ in range(2)] == [0, 12]
    now[0] += 70
    assert [five.take(name) for name in "cde"] == [0] * 3
    assert set(five.left) == {"c", "d", "e"}  # nobody is remembered for ever


def test_a_made_up_address_is_not_believed(stranger):
    for k in range(5):
        stranger.post("/sign-in", data={"token": "x"}, headers={"X-Forwarded-For": f"192.0.2.{k}"})
    answer = stranger.post("/sign-in", data={"token": "x"}, headers={"X-Forwarded-For": "192.0.2.99"})
    assert answer.status_code == 429


def test_a_proxy_says_whom_it_speaks_for(site):
    app = create_app(site.store, site.images, ["a"], secret=b"x", title="x", known_hosts=["labels.example"])
    with serving(PageServer(app, "127.0.0.1", 0, proxies=["127.0.0.1"])) as address:
        headers = {"Host": "labels.example", "X-Forwarded-Proto": "https"}

        def sign_in(token, client):
            return httpx.post(
                address + "/api/sign-in",
                json={"token": token},
                headers=headers | {"X-Forwarded-For": f"203.0.113.66, {client}"},
            )

        answers = [sign_in("x", "192.0.2.1").status_code for _ in range(6)]
        assert answers == [403] * 5 + [429]
        assert sign_in("x", "192.0.2.2").status_code == 403
        right = sign_in(site.token("ada"), "192.0.2.3")
        assert "; Secure" in right.headers["set-cookie"]
        assert "max-age" in right.headers["strict-transport-security"]
    addresses = [row[0] for row in site.store.database.rows("SELECT address FROM access ORDER BY id")]
    assert addresses == ["192.0.2.1"] * 5 + ["192.0.2.2", "192.0.2.3"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("LOCALHOST:8000", 200),
        ("localhost.", 200),
        ("[::1]:8000", 200),
        ("labels.example:443", 200),
        ("evil.example", 421),
        ("labels.example.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("127.0.0.1:80@evil.example", 421),
        ("", 421),
        ("[::1", 421),
    ],
)
def test_only_known_hosts_are_answered(site, host, status):
    """A foreign name that its owner makes lead here would let foreign scripts ask in a person's name."""
    app = create_app(site.store, site.images, ["a"], secret=b"x", title="x", known_hosts=["labels.example"])
    with serving(PageServer(app, "127.0.0.1", 0)) as address:
        for path in ("/sign-in", "/static/label.js"):
            answer = httpx.get(address + path, headers={"Host": host})
            assert answer.status_code == status
            assert answer.headers["x-frame-options"] == "DENY"


def test_known_hosts_are_those_of_the_certificate(tmp_path):
    certificate, _ = self_signed(tmp_path)
    assert find_known_hosts("0.0.0.0", certificate, ["labels.example"]) == {
        "0.0.0.0",
        "127.0.0.1",
        "[fd00::7]",
        "ward.example",
        "labels.example",
    }
    assert find_known_hosts("::1", None, []) == {"[::1]"}
    (tmp_path / "broken.pem").write_text("no certificate")
    for file in ("broken.pem", "missing.pem"):
        with pytest.raises(UserError, match=file):
            find_known_hosts("localhost", tmp_path / file, [])


def test_idle_strangers_lock_nobody_out(site, signed_in):
    client = signed_in("ada")
    port = site.server.socket.getsockname()[1]
    strangers = []
    try:
        for k in range(300):
            begun = socket.socket()
            begun.bind((f"127.0.0.{2 + k % 3}", 0))
            begun.connect(("127.0.0.1", port))
            begun.sendall([b"", b"GET / HT", b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\n"][k % 3])
            strangers.append(begun)
        begun = time.perf_counter()
        assert client.get("/api/next").status_code == 200
        assert httpx.get(site.address + "/sign-in").status_code == 200
        assert time.perf_counter() - begun < 10
    finally:
        for one in strangers:
            one.close()


def test_slow_strangers_are_let_go(site, monkeypatch):
    monkeypatch.setattr(sockets, "SECONDS_TO_ASK", 0.3)
    port = site.server.socket.getsockname()[1]
    half_a_body = b"POST /api/sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"
    for begun in (b"", b"GET / HT", half_a_body):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
            stranger.sendall(begun)
            with suppress(ConnectionError):
                assert stranger.recv(100) == b""


def test_headers_are_strict_everywhere(site, signed_in, stranger):
    client = signed_in("ada")
    places = [
        "/",
        "/overview",
        "/images/0",
        "/images/77",
        "/static/label.js",
        "/api/next",
        "/nowhere",
        "/api/nowhere",
    ]
    answers = [client.get(place) for place in places] + [stranger.get("/"), stranger.get("/sign-in")]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
    kept = {
        place: client.get(place).headers["cache-control"]
        for place in ("/", "/api/next", "/static/label.js", "/images/0")
    }
    assert list(kept.values()) == ["no-store", "no-store", "no-cache", "no-store"]


def test_pages_have_nothing_inline_and_nothing_from_elsewhere(site, signed_in):
    site.store.rounds.open("run", 1, range(5), "logo", None)
    client = signed_in("ada")
    for place in ("/", "/overview", "/late", "/sign-in", "/nowhere"):
        page = client.get(place).text.lower()
        assert "<style" not in page
        assert " style=" not in page
        assert " onclick" not in page
        assert "http" not in page.replace("http-equiv", "")
        assert all("src=" in part.split(">")[0] for part in page.split("<script")[1:])


def test_names_cannot_bring_markup(site, signed_in):
    client = signed_in("<script>alert(1)</script>")
    assert "<script>alert" not in client.get("/overview").text
    assert "&lt;script&gt;alert" in client.get("/overview").text


def test_file_names_and_others_answers_are_for_leads(site, signed_in):
    site.store.rounds.open("run", 1, range(2), "logo", None, overlap=2)
    ada, bob = signed_in("ada"), signed_in("bob", lead=True)
    refused = ada.get("/label-studio.json")
    assert (refused.status_code, refused.headers["content-type"][:9]) == (403, "text/html")
    assert "Only a lead of this site may do this" in refused.text
    refused = ada.post("/api/label-studio", json=[])
    assert (refused.status_code, refused.json()["error"][:11]) == (403, "Only a lead")
    assert bob.get("/label-studio.json").status_code == 200
    assert bob.post("/api/label-studio", json=[]).status_code == 200
    twin = "train_images[60]"  # left out
    assert (twin in bob.get("/overview").text, twin in ada.get("/overview").text) == (True, False)
    assert "some take no part, a lead can see which" in ada.get("/overview").text
    assert ("Export JSON" in bob.get("/overview").text, "Export JSON" in ada.get("/overview").text) == (
        True,
        False,
    )
    site.store.annotators.remove("bob")
    site.tokens.clear()
    assert signed_in("bob").get("/label-studio.json").status_code == 403  # added again, and no lead


def test_large_requests_are_refused(site, signed_in, monkeypatch):
    client = signed_in("ada", lead=True)
    answer = client.post("/api/answer", content=b" " * (guard.LARGEST + 1))
    assert answer.status_code == 413
    assert "larger than 64 KB" in answer.json()["error"]
    monkeypatch.setattr(guard, "LARGEST_IMPORT", 1000)
    assert client.post("/api/label-studio", content=(b"[" * 100 for _ in range(11))).status_code == 413
    assert client.post("/sign-in", content=b"token=" + b"x" * guard.LARGEST).status_code == 413


@pytest.mark.parametrize("wrong", ["3", 3.0, True, [3], {"label": 3}])
def test_labels_are_integers_only(site, signed_in, wrong):
    site.store.rounds.open("run", 1, range(5), "logo", None)
    client = signed_in("ada")
    for given in ({"sample": 0, "label": wrong}, {"sample": wrong, "label": 0}):
        assert client.post("/api/answer", json=given).status_code == 422
    assert site.store.labels() == {}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"sample": 1e999}', b"[" * 60_000])
def test_rubbish_is_no_crash(site, signed_in, content):
    client = signed_in("ada")
    for place in ("/api/answer", "/api/undo", "/api/sign-in"):
        assert client.post(place, content=content).status_code in (400, 422)


def test_with_a_certificate_the_cookie_is_secure(site, tmp_path):
    certificate, key = self_signed(tmp_path)
    app = create_app(site.store, site.images, ["a"], secret=b"x", title="x")
    with serving(PageServer(app, "127.0.0.1", 0, (certificate, key))) as address:
        trusted = ssl.create_default_context(cafile=certificate)
        answer = httpx.post(address + "/api/sign-in", json={"token": site.token("ada")}, verify=trusted)
        assert address.startswith("https://")
        assert "; Secure" in answer.headers["set-cookie"]
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
    assert "strict-transport-security" not in httpx.get(site.address).headers


@contextmanager
def serving(server):
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server.address
    finally:
        server.stop()
        thread.join(20)


def self_signed(folder):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName(
                [
                    *(x509.IPAddress(ipaddress.ip_address(one)) for one in ("127.0.0.1", "fd00::7")),
                    x509.DNSName("ward.example"),
                ]
            ),
            False,
        )
        .sign(key, hashes.SHA256())
    )
    (folder / "c.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "k.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "c.pem", folder / "k.pem"
