"""Users and groups, for administrators."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.models import Group, User
from django.db.models import Count, Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from catalog.access.grants import rows_for
from catalog.access.principals import principal_of
from catalog.access.users import UserChange, create_user, delete_user, update_user
from catalog.models import ApiToken
from core.errors import NotFound, SluiceError
from frontend.forms.people import NewUserForm, UserForm
from frontend.pages import PageRequest, admin_page, numbered_page


@sensitive_post_parameters("password")
@admin_page
@require_http_methods(["GET", "POST"])
def user_list(request: PageRequest) -> HttpResponse:
    form = NewUserForm(request.POST or None)
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        try:
            user = create_user(**form.values(), by=request.principal.name)
        except SluiceError as refused:
            error = refused
        else:
            messages.success(
                request,
                gettext("User %(name)s created.") % {"name": user.username},
                extra_tags="ok",
            )
            return redirect("frontend:users")
    q = request.GET.get("q", "").strip()
    rows = User.objects.prefetch_related("groups").order_by("username")
    if q:
        rows = rows.filter(username__icontains=q)
    context = {
        "users": numbered_page(request, rows),
        "form": form,
        "error": error,
        "q": q,
    }
    return render(request, "frontend/admin/users.html", context)


@sensitive_post_parameters("password")
@admin_page
@require_http_methods(["GET", "POST"])
def user_page(request: PageRequest, name: str) -> HttpResponse:
    user = User.objects.filter(username=name).prefetch_related("groups").first()
    if user is None:
        raise NotFound(f"there is no user '{name}'")
    initial = UserForm.initial_of(user)
    form = UserForm(request.POST or None, initial=initial)
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        try:
            change = UserChange(**form.values())
            update_user(name, change, by=request.principal.name)
        except SluiceError as refused:
            error = refused
        else:
            messages.success(
                request,
                gettext("User %(name)s saved.") % {"name": name},
                extra_tags="ok",
            )
            return redirect("frontend:users-user", name)
    grants = rows_for(principal_of(user)).order_by("datasource", "database", "table")
    context = {
        "person": user,
        "form": form,
        "error": error,
        "grants": grants[:500],
        "tokens": ApiToken.objects.filter(user=user).order_by("-created_at"),
    }
    return render(request, "frontend/admin/user.html", context)


@admin_page
@require_http_methods(["GET", "POST"])
def user_delete(request: PageRequest, name: str) -> HttpResponse:
    """Shows what goes with the user; a second press does it."""
    user = User.objects.filter(username=name).first()
    if user is None:
        raise NotFound(f"there is no user '{name}'")
    error: SluiceError | None = None
    if request.method == "POST":
        try:
            delete_user(name, by=request.principal.name)
        except SluiceError as refused:
            error = refused
        else:
            done = gettext("User %(name)s deleted.") % {"name": name}
            messages.success(request, done, extra_tags="ok")
            return redirect("frontend:users")
    context = {"person": user, "error": error}
    return render(request, "frontend/admin/user_delete.html", context)


@admin_page
@require_safe
def group_list(request: PageRequest) -> HttpResponse:
    rows = Group.objects.annotate(
        members=Count("user", filter=Q(user__is_active=True))
    ).prefetch_related("user_set")
    context = {"groups": numbered_page(request, rows.order_by("name"))}
    return render(request, "frontend/admin/groups.html", context)
