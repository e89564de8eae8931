"""Users and groups, for administrators."""

from __future__ import annotations

from django.contrib.auth.models import Group, User
from django.db.models import Count, Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_post_parameters

from catalog.access.grants import GROUP, rows_for
from catalog.access.groups import change_member, delete_group, group_named, rules_naming
from catalog.access.principals import principal_of
from catalog.access.users import UserChange, create_user, delete_user, update_user
from catalog.models import ApiToken, DirectoryGroup, Grant
from core.errors import NotFound, SluiceError
from frontend.forms.people import MOST_NAMES, NewUserForm, UserForm
from frontend.pages import PageRequest, attempt, numbered_page, page, refusal_of
from frontend.reading.people import what_ends


@sensitive_post_parameters("password")
@page("GET", "POST", for_admins=True)
def user_list(request: PageRequest) -> HttpResponse:
    form = NewUserForm(request.POST or None)
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        given, by = form.values(), request.principal.name
        done = gettext("User %(name)s created.") % {"name": given["name"]}
        error = refusal_of(request, done, lambda: create_user(**given, by=by))
        if error is None:
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
@page("GET", "POST", for_admins=True)
def user_page(request: PageRequest, name: str) -> HttpResponse:
    user = User.objects.filter(username=name).prefetch_related("groups").first()
    if user is None:
        raise NotFound("there is no user '%(name)s'", name=name)
    initial = UserForm.initial_of(user)
    form = UserForm(request.POST or None, initial=initial)
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        change, by = UserChange(**form.values()), request.principal.name
        done = gettext("User %(name)s saved.") % {"name": name}
        error = refusal_of(request, done, lambda: update_user(name, change, by=by))
        if error is None:
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


@page("GET", "POST", for_admins=True)
def user_delete(request: PageRequest, name: str) -> HttpResponse:
    """Shows what goes with the user; a second press does it."""
    user = User.objects.filter(username=name).first()
    if user is None:
        raise NotFound("there is no user '%(name)s'", name=name)
    error: SluiceError | None = None
    if request.method == "POST":
        by = request.principal.name
        done = gettext("User %(name)s deleted.") % {"name": name}
        error = refusal_of(request, done, lambda: delete_user(name, by=by))
        if error is None:
            return redirect("frontend:users")
    context = {"person": user, "error": error, "ends": what_ends(user)}
    return render(request, "frontend/admin/user_delete.html", context)


@page(for_admins=True)
def group_list(request: PageRequest) -> HttpResponse:
    rows = Group.objects.annotate(
        members=Count("user", filter=Q(user__is_active=True))
    ).prefetch_related("user_set")
    context = {"groups": numbered_page(request, rows.order_by("name"))}
    return render(request, "frontend/admin/groups.html", context)


@page("GET", "POST", for_admins=True)
def group_page(request: PageRequest, name: str) -> HttpResponse:
    """Members, grants and rules of a group; a POST changes one member."""
    group = group_named(name)
    if request.method == "POST":
        member = request.POST.get("user", "").strip()
        is_member = request.POST.get("do") == "add"
        words = {"user": member, "group": name}
        done = (
            gettext("%(user)s is a member of %(group)s now.")
            if is_member
            else gettext("%(user)s is no member of %(group)s any more.")
        )
        by = request.principal.name
        attempt(
            request,
            done % words,
            lambda: change_member(group, member, is_member=is_member, by=by),
        )
        return redirect("frontend:groups-group", name)
    members = group.user_set.prefetch_related("groups").order_by("username")
    others = User.objects.exclude(groups=group).order_by("username")
    context = {
        "group": group,
        "members": numbered_page(request, members),
        "others": others.values_list("username", flat=True)[:MOST_NAMES],
        "grants": _given_to(group),
        "rules": rules_naming(f"{GROUP}:{name}"),
        "is_external": DirectoryGroup.objects.filter(group=group).exists(),
    }
    return render(request, "frontend/admin/group.html", context)


@page("GET", "POST", for_admins=True)
def group_delete(request: PageRequest, name: str) -> HttpResponse:
    """Shows what goes with the group; a second press does it."""
    group = group_named(name)
    error: SluiceError | None = None
    if request.method == "POST":
        by = request.principal.name
        done = gettext("Group %(name)s deleted.") % {"name": name}
        error = refusal_of(request, done, lambda: delete_group(name, by=by))
        if error is None:
            return redirect("frontend:groups")
    context = {
        "group": group,
        "error": error,
        "members": group.user_set.count(),
        "grants": _given_to(group),
    }
    return render(request, "frontend/admin/group_delete.html", context)


def _given_to(group: Group) -> QuerySet[Grant]:
    rows = Grant.objects.filter(principal_kind=GROUP, principal_name=group.name)
    return rows.order_by("datasource", "database", "table")[:MOST_NAMES]
