"""Sign in at a real provider over HTTP, and what the answer may not be."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from catalog.access import users
from catalog.access.external_users import suspend, suspend_idle
from catalog.access.group_rules import rules_from
from catalog.access.oidc_provider import provider_of
from catalog.access.oidc_spec import ProviderAway
from catalog.access.tokens import create_token, find_token
from catalog.models import ExternalIdentity
from frontend import login_places
from tests.integration.frontend.sign_ins import (
    ANN,
    expect_refusal,
    follow,
    is_in,
    local,
    sign_in,
)

pytestmark = pytest.mark.django_db


def test_the_button_leads_in_and_the_user_is_made_once(client, provider):
    page = client.get("/login?next=/tables").content.decode()
    assert "Sign in with the firm" in page
    assert 'href="/login/provider?next=/tables"' in page
    first = sign_in(client)
    assert (first.status_code, first["Location"]) == (302, "/tables")
    assert is_in(client)
    ann = User.objects.get(username="ann@example.org")
    assert set(ann.groups.values_list("name", flat=True)) == {"bi"}
    provider.claims = {"preferred_username": "ann.renamed", "groups": []}
    other = Client()
    assert sign_in(other)["Location"] == "/tables"
    assert User.objects.get(username="ann@example.org").groups.count() == 0
    assert not User.objects.filter(username="ann.renamed").exists()


def test_an_answer_counts_only_in_the_browser_that_left(client, provider):
    left = client.get("/login/provider")
    back = local(follow(left["Location"]))
    thief = Client()
    assert "did not begin in this browser" in thief.get(back).content.decode()
    thief.get("/login/provider")
    assert "for another browser" in thief.get(back).content.decode()
    assert not is_in(thief)
    assert "/token" not in provider.asked  # the code was not even shown
    client.get("/login/provider/back", {"state": "made-up", "code": "x"})
    assert client.get(back).status_code == 403  # one answer per departure
    assert not is_in(client)


def test_a_code_is_good_once_and_with_its_verifier(client, provider):
    left = client.get("/login/provider")
    kept = client.cookies["sluice_sign_in"].value
    back = local(follow(left["Location"]))
    assert client.get(back).status_code == 302
    again = Client()
    again.cookies["sluice_sign_in"] = kept
    assert again.get(back).status_code == 403
    assert not is_in(again)


def test_what_the_provider_refuses_is_told(client, provider):
    left = client.get("/login/provider")
    query = dict(
        pair.split("=") for pair in urlsplit(left["Location"]).query.split("&")
    )
    answer = {"error": "access_denied", "state": query["state"]}
    reply = client.get("/login/provider/back", answer)
    assert "access_denied" in reply.content.decode()
    assert reply.status_code == 403


@pytest.mark.parametrize(
    "configuration",
    [
        {"issuer": "https://elsewhere.example"},
        {"jwks_uri": "file:///etc/passwd"},
        {"token_endpoint": None},
    ],
)
def test_a_provider_that_is_not_itself_is_not_asked(client, provider, configuration):
    provider.configuration = configuration
    reply = client.get("/login/provider")
    assert reply.status_code == 503
    assert "cannot be asked" in reply.content.decode()
    assert provider.asked == ["/.well-known/openid-configuration"]


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys"])
def test_a_provider_that_sends_us_elsewhere_is_not_followed(client, provider, path):
    provider.elsewhere = {path: f"{provider.issuer}/authorize?state=x&redirect_uri=x"}
    left = client.get("/login/provider")
    if path == "/keys":
        left = client.get(local(follow(left["Location"])))
        provider.asked.remove("/authorize")  # that was the browser
    assert left.status_code == 503
    assert "answers 302" in left.content.decode()
    assert "/authorize" not in provider.asked


def test_an_answer_without_end_is_not_read(client, provider):
    provider.configuration = {"padding": "x" * (1 << 20)}
    reply = client.get("/login/provider")
    assert reply.status_code == 503
    assert "not a JSON object" in reply.content.decode()


def test_without_the_provider_local_users_log_in(client, provider, settings):
    users.create_user("root", "a long password", is_admin=True, by="x")
    settings.SLUICE_OIDC = replace(settings.SLUICE_OIDC, issuer="http://127.0.0.1:1")
    assert client.get("/login/provider").status_code == 503
    form = {"username": "root", "password": "a long password"}
    assert client.post("/login", form).status_code == 302
    assert is_in(client)


def test_a_provider_that_is_silent_is_left_alone_for_a_while(
    client, provider, settings, monkeypatch
):
    """Everybody may press the button, and each press would hold a thread."""
    monkeypatch.setattr("catalog.access.oidc_provider.WAIT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        issuer = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings.SLUICE_OIDC = replace(settings.SLUICE_OIDC, issuer=issuer)
        pages = [client.get("/login/provider") for _ in range(5)]
        silent.settimeout(10)
        silent.accept()[0].close()
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert [page.status_code for page in pages] == [503] * 5
    assert "did not answer a moment ago" in pages[-1].content.decode()


def test_who_comes_back_without_end_holds_few_threads(client, provider):
    """Each arrival waits for the provider, whatever its code is."""
    request = RequestFactory().get("/login/provider/back")
    with contextlib.ExitStack() as flood:
        for _ in range(login_places.ARRIVALS_OF_ONE_ADDRESS):
            flood.enter_context(login_places.arrival_place(request))
        assert sign_in(client).status_code == 503
        assert not is_in(client)
    sign_in(client)
    assert is_in(client)


def test_who_asks_for_the_same_does_not_wait_long(provider, settings, monkeypatch):
    monkeypatch.setattr("catalog.access.oidc_provider.QUEUE_SECONDS", 0.01)
    asked = provider_of(settings.SLUICE_OIDC)
    with asked._lock, pytest.raises(ProviderAway, match="others wait"):
        asked.configuration()
    assert asked.configuration()["issuer"] == provider.issuer


def test_names_and_groups_may_come_from_userinfo_of_the_same_person(client, provider):
    provider.claims = {}
    provider.userinfo = {"sub": "1234", **ANN}
    assert sign_in(client).status_code == 302
    assert User.objects.get().groups.get().name == "bi"
    provider.userinfo = {"sub": "9", **ANN}
    provider_of.cache_clear()
    assert sign_in(Client()).status_code == 403


def test_a_mail_address_names_only_whom_it_was_verified_for(client, provider, settings):
    settings.SLUICE_OIDC = replace(settings.SLUICE_OIDC, name_claim="email")
    provider.claims |= {"email": "boss@example.org", "email_verified": False}
    expect_refusal(client, sign_in(client), "unverified")
    provider.claims |= {"email_verified": True}
    assert sign_in(client).status_code == 302


def test_local_names_stay_local_and_groups_decide(client, provider, settings):
    users.create_user("ann@example.org", "a long password", by="x")
    assert sign_in(client).status_code == 403
    provider.claims |= {"preferred_username": "ann"}
    spec = settings.SLUICE_OIDC
    settings.SLUICE_OIDC = replace(spec, rules=rules_from("", "", "staff"))
    assert sign_in(client).status_code == 403
    settings.SLUICE_OIDC = replace(spec, rules=rules_from("bi=people", "bi", "BI"))
    assert sign_in(client).status_code == 302
    ann = User.objects.get(username="ann")
    assert ann.is_superuser
    assert [group.name for group in ann.groups.all()] == ["people"]


def test_a_session_that_is_saved_again_lasts_no_longer(client, provider):
    sign_in(client)
    session = client.session
    ends = session.get_expiry_date()
    session["words"] = "something"
    session.save()
    assert client.session.get_expiry_date() == ends


def test_log_out_offers_to_leave_the_provider_too(client, provider):
    sign_in(client)
    left = client.post("/logout")
    page = client.get(left["Location"]).content.decode()
    assert "/login/provider/leave" in page
    assert not is_in(client)
    away = client.get("/login/provider/leave")
    assert away["Location"].startswith(f"{provider.issuer}/leave?client_id=sluice")


def test_who_does_not_sign_in_any_more_loses_his_tokens(client, provider, settings):
    sign_in(client)
    ann = User.objects.get()
    text = create_token(ann, name="t", expires_in_days=None, by="x").text
    assert suspend_idle() == 0
    long_ago = datetime.now(UTC) - timedelta(days=31)
    ExternalIdentity.objects.update(checked_at=long_ago)
    settings.SLUICE_IDLE_DAYS = 0
    assert suspend_idle() == 0
    settings.SLUICE_IDLE_DAYS = 30
    assert suspend_idle() == 1
    assert find_token(text) is None
    assert not is_in(client)
    assert sign_in(Client()).status_code == 302
    assert find_token(text)


def test_an_administrator_s_page_changes_only_what_he_changed(client, provider):
    users.create_user("root", "a long password", is_admin=True, by="x")
    sign_in(client)
    ann = User.objects.get(username="ann@example.org")
    assert suspend(ann.external_identity.provider, "1234", reason="test")
    root = Client()
    root.post("/login", {"username": "root", "password": "a long password"})
    page = root.get("/users/ann@example.org").content.decode()
    assert "Access was revoked there" in page
    assert 'name="password"' not in page
    saved = root.post("/users/ann@example.org", {"groups": "bi, more"})
    assert saved.status_code == 302
    assert sign_in(Client()).status_code == 302  # still the provider's to give back
    assert set(ann.groups.values_list("name", flat=True)) == {"bi", "more"}
    root.post("/users/ann@example.org", {"groups": "bi, more"})  # now switched off
    assert sign_in(Client()).status_code == 403


def test_a_foreign_page_is_not_where_one_lands(client, provider):
    assert sign_in(client, "https://evil.example/")["Location"] == "/"


def test_without_settings_there_is_no_such_door(client, settings):
    settings.SLUICE_OIDC = None
    assert client.get("/login/provider").status_code == 404
    assert "Sign in with" not in client.get("/login").content.decode()
