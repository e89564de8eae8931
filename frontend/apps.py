from __future__ import annotations

from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in


class FrontendConfig(AppConfig):
    name = "frontend"

    def ready(self) -> None:
        from frontend.localisation import remember_at_login

        user_logged_in.connect(remember_at_login, dispatch_uid="preferences")
