"""The form of an alert target. Rules are the service's; this shapes input."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from frontend.forms.optional import OptionalForm
from frontend.reading.alerts import TITLES
from frontend.typed_secrets import IS_KEPT
from ingest.alerts.chat import CHATS, SIGNED
from ingest.alerts.rules import KINDS
from ingest.alerts.targets import SHORTEST_SECRET, NewTarget

KIND_TITLES = {
    "email": _("E-mail"),
    "webhook": _("Webhook"),
    "slack": _("Slack"),
    "teams": _("Microsoft Teams"),
    "feishu": _("Feishu"),
    "dingtalk": _("DingTalk"),
    "wecom": _("WeCom"),
}
# How the address of each kind begins, as its product hands it out.
EXAMPLES = {
    "webhook": "https://host/path",
    "slack": "https://hooks.slack.com/services/…",
    "teams": "https://….logic.azure.com/workflows/…",
    "feishu": "https://open.feishu.cn/open-apis/bot/v2/hook/…",
    "dingtalk": "https://oapi.dingtalk.com/robot/send?access_token=…",
    "wecom": "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=…",
}
WEBHOOK_SECRET = format_lazy(
    _("Signs each message, {least} characters or more. It is never shown again."),
    least=SHORTEST_SECRET,
)
CHAT_SECRET = _("Only if the robot checks signatures. It is never shown again.")
CHAT_URL = _("Address of the robot of a group. It is kept like a password.")


def language_field() -> forms.ChoiceField:
    """Of messages; "" = the installation's."""
    names = dict(settings.LANGUAGES)
    usual = format_lazy(_("default: {name}"), name=names[settings.LANGUAGE_CODE])
    return forms.ChoiceField(
        label=_("Language"),
        choices=[("", usual), *names.items()],
        help_text=_("Messages are sent in it."),
    )


class SubscriptionForm(OptionalForm):
    """What a target is told of, and in which language."""

    language = language_field()
    on = forms.CharField(
        max_length=600,
        label=_("Only on"),
        help_text=_("lake.shop or lake.shop.orders. Empty: the whole lake."),
    )
    kinds = forms.MultipleChoiceField(
        label=_("Kinds"),
        choices=[(kind, TITLES[kind]) for kind in KINDS],
        widget=forms.CheckboxSelectMultiple,
    )


class TargetForm(SubscriptionForm):
    """Only the fields of one kind. kind: what data has none for. kept: the secret
    typed now, or in the try before."""

    needed = ("name", "kind", "address", "url")
    field_order = ("name", "kind", "address", "url", "secret")

    name = forms.CharField(
        max_length=100,
        label=_("Name"),
        help_text=_("Shown in the list of targets."),
    )
    kind = forms.ChoiceField(choices=KIND_TITLES.items(), widget=forms.HiddenInput)
    address = forms.CharField(max_length=254, label=_("E-mail address"))
    url = forms.CharField(max_length=1000, label=_("URL"))
    secret = forms.CharField(
        max_length=1000,
        strip=False,
        label=_("Secret"),
        widget=forms.PasswordInput(
            render_value=False, attrs={"autocomplete": "new-password"}
        ),
    )

    def __init__(self, data: Any = None, *, kind: str = "", kept: str = "") -> None:
        kind = (data or {}).get("kind", kind)
        self.chosen = kind if kind in KIND_TITLES else "webhook"
        self.kept = kept
        super().__init__(data, initial={"kind": self.chosen})
        is_chat = self.chosen in CHATS
        gone = {"url", "secret"} if self.chosen == "email" else {"address"}
        if is_chat and self.chosen not in SIGNED:
            gone.add("secret")
        for name in gone:
            del self.fields[name]
        if "url" in self.fields:
            self.fields["url"].help_text = CHAT_URL if is_chat else ""
            self.fields["url"].widget.attrs["placeholder"] = EXAMPLES[self.chosen]
        if "secret" in self.fields:
            about = CHAT_SECRET if is_chat else WEBHOOK_SECRET
            self.fields["secret"].help_text = IS_KEPT if kept else about
            self.fields["secret"].required = not (is_chat or kept)

    def clean_secret(self) -> str:
        return self.cleaned_data["secret"] or self.kept

    def new_target(self) -> NewTarget:
        return NewTarget(**self.cleaned_data)
