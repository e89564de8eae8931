"""People's pages: invitations, a group, access given from a table, a user's end."""

from __future__ import annotations

import re
from email import message_from_bytes, policy

import pytest
from django.contrib.auth.models import User
from django.test import Client

from catalog.access import rules
from catalog.access.tokens import create_token
from catalog.models import Grant, Invitation
from ingest.alerts.smtp_spec import Smtp
from tests.integration.frontend.reading import html_of
from tests.integration.frontend.world import PASSWORD
from tests.receivers import mail_receiver

LINK = re.compile(r"http://\S+(/invited/sli_\w{12}_[\w-]{43})")


def test_a_link_is_shown_once_and_works(world, browse) -> None:
    client = browse("root")
    form = {"name": "zoe", "groups": ["bi"], "new_groups": "ops", "days": "3"}
    page = client.post("/invitations", form).content.decode()
    link = LINK.search(page)[1]
    again = client.get("/invitations").content.decode()
    assert "zoe" in again
    assert LINK.search(again) is None
    weak = Client().post(link, {"password": "12345", "again": "12345"})
    assert weak.status_code == 400
    assert html_of(weak).count("<li>Password: ") > 1
    form = {"password": PASSWORD, "again": PASSWORD}
    assert Client().post(link, form).status_code == 302
    assert "not valid" in html_of(Client().get(link))
    groups = User.objects.get(username="zoe").groups.order_by("name")
    assert [group.name for group in groups] == ["bi", "ops"]


def test_a_link_goes_by_mail_and_is_not_shown(world, browse, settings) -> None:
    with mail_receiver() as box:
        settings.SLUICE_SMTP = Smtp("127.0.0.1", box.port, tls="off")
        form = {"name": "zoe", "days": "3", "address": "zoe@example.com"}
        page = browse("root").post("/invitations", form).content.decode()
        assert "was sent to zoe@example.com" in page
        assert LINK.search(page) is None
        sent = message_from_bytes(box.mails[0], policy=policy.default)
        assert LINK.search(sent.get_content())
        browse("root").post("/invitations", form | {"language": "zh-hans"})
        chinese = message_from_bytes(box.mails[1], policy=policy.default)
        assert chinese["Subject"] == "Sluice 邀请"
        assert "您被邀请" in chinese.get_content()
        box.refuse = "550 no such user"
        page = browse("root").post("/invitations", form).content.decode()
        assert "The mail was not sent" in page
        assert LINK.search(page)
        bad = form | {"address": "zoe@example.com\nBcc: eve@example.com"}
        browse("root").post("/invitations", bad)
    assert Invitation.objects.count() == 1


def test_an_invitation_is_withdrawn(world, browse) -> None:
    client = browse("root")
    client.post("/invitations", {"name": "zoe", "days": "3"})
    path = f"/invitations/{Invitation.objects.get().pk}/withdraw"
    assert browse("ann").post(path).status_code == 404
    assert client.post(path, follow=True).status_code == 200
    assert not Invitation.objects.exists()


def test_a_group_has_members_grants_and_rules(world, browse) -> None:
    rule = {"kind": "row_filter", "on": "lake.shop.orders", "expression": "id > 1"}
    rules.save_rule(rules.Stated(**rule, applies_to=["group:bi"]), by="root")
    client = browse("root")
    page = html_of(client.get("/groups/bi"))
    for text in ("ann", "lake.shop.orders", "row filter", "id &gt; 1"):
        assert text in page
    client.post("/groups/bi", {"do": "add", "user": "eve"})
    assert {u.username for u in User.objects.filter(groups__name="bi")} == {
        "ann",
        "eve",
    }
    client.post("/groups/bi", {"do": "remove", "user": "ann"})
    assert [u.username for u in User.objects.filter(groups__name="bi")] == ["eve"]
    assert (
        "no user"
        in client.post(
            "/groups/bi", {"do": "add", "user": "nobody"}, follow=True
        ).content.decode()
    )
    refused = client.post("/groups/bi/delete").content.decode()
    assert "ules name the group" in refused
    assert (
        browse("ann").post("/groups/bi", {"do": "add", "user": "ann"}).status_code
        == 404
    )


def test_access_is_given_to_many_by_ticking(world, browse) -> None:
    table = world.lake_tables["orders"]
    path = f"/tables/{table.pk}/access"
    form = {
        "principal": ["group:bi", "user:eve"],
        "privilege": "select",
        "column": ["id", "name"],
    }
    assert browse("ann").post(path, form).status_code == 403
    done = browse("root").post(path, form, follow=True).content.decode()
    assert "Access given." in done
    given = Grant.objects.filter(columns=["id", "name"])
    assert {row.principal for row in given} == {"group:bi", "user:eve"}
    before = Grant.objects.count()
    for wrong in (
        {"principal": ["user:eve", "user:nobody"]},
        {"column": ["id", "not_there"]},
        {"principal": []},
        {"principal": [f"group:g{n}" for n in range(51)]},
        {"privilege": "operate"},
    ):
        page = browse("root").post(path, form | wrong, follow=True).content.decode()
        assert "Access given." not in page
    assert Grant.objects.count() == before


def test_people_are_found_by_a_part_of_their_name(world, browse) -> None:
    path = "/grants/people?who=ev&principal=user:ann"
    page = browse("root").get(path).content.decode()
    assert re.findall(r'value="(\S+)"\s+(checked)?', page) == [
        ("user:ann", "checked"),
        ("user:eve", ""),
    ]


def test_what_ends_with_a_user_is_shown_before(world, browse) -> None:
    create_token(world.ann, name="cli", expires_in_days=1, by="ann")
    page = html_of(browse("root").get("/users/ann/delete"))
    for line in ("sessions in browsers end", "1 token ends.", "1 grant ends."):
        assert line in page


@pytest.mark.parametrize("path", ["/groups/none", "/groups/none/delete"])
def test_there_is_no_such_group(world, browse, path) -> None:
    assert browse("root").get(path).status_code == 404
