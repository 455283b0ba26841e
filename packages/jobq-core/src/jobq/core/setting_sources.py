"""Which settings are in force, where each came from, and what is wrong with them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from jobq.core.origins import masked
from jobq.core.setting_keys import (
    CONNECTION,
    CONNECTION_NAME,
    DEFAULT_CONNECTION,
    KEYS,
    PREFIX,
    SQS_BACKENDS,
    SQS_ENDPOINT,
    SQS_PLAINTEXT,
    SQS_REGION,
    Key,
    prefix_of,
    read_connection_name,
)
from jobq.core.setting_slips import meant

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

# What else botocore reads to find a region and credentials, as far as it stands in the environment.
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
)
# botocore reads these where a client is given no endpoint; the more special one counts.
_FOREIGN_ENDPOINTS = ("AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL")
_ANY_CONNECTION = re.compile(rf"{PREFIX}([A-Z][A-Z0-9_]*)_({'|'.join(key.name for key in KEYS)})\Z")
_HIDDEN = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key. `value` is as it may be shown, secrets masked, and None where nothing is set.

    `source` is the environment variable that it came from, or "argument", "default" or "not set".
    `problem` says what is wrong with it, and `note` what else there is to know.
    """

    key: str
    value: str | None
    source: str
    problem: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """An environment as one connection reads it.

    `connection` is None where its very name is wrong. `values` are those that could be read, by
    `Key.name`. `sqs_problems` are what an SQS queue would fail at, over whatever backend.
    """

    connection: str | None
    settings: tuple[Setting, ...]
    values: Mapping[str, Any]
    sqs_problems: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(one.problem for one in self.settings if one.problem is not None)

    def value(self, key: Key[T]) -> T | None:
        return cast("T | None", self.values.get(key.name))


def explain(environ: Mapping[str, str], connection: str | None = None) -> list[Setting]:
    """The settings of a connection (None: the one that the environment names), in a fixed order.

    Then follow the variables of AWS that are set and bear on an SQS queue, credentials masked, and
    those that nothing reads, though they look as if it did.

    It raises nothing: where the environment is wrong, the `problem` of a setting says so, in the
    words of `read_settings`.
    """
    found = examine(environ, connection)
    if found.value(CONNECTION) not in SQS_BACKENDS:
        return list(found.settings)
    return [*found.settings, *_aws(found, environ)]


def examine(environ: Mapping[str, str], connection: str | None = None) -> Examined:
    """Read all that counts for a connection, and check it; raises nothing."""
    chosen = _choose(environ, connection)
    if chosen.value is None or chosen.problem is not None:
        return Examined(connection=None, settings=(chosen,), values={})
    name = chosen.value
    settings: dict[str, Setting] = {}
    values: dict[str, Any] = {}
    for key in KEYS:
        settings[key.name], values[key.name] = _look_up(key, environ, name)
    found = Examined(connection=name, settings=(), values=values)
    refusals = _check_plaintext(found) | _check_connection(found, environ)
    sqs = _check_region(found) | _check_foreign_endpoint(found, environ)
    if found.value(CONNECTION) in SQS_BACKENDS:
        refusals |= sqs
    rows = [chosen, *settings.values(), *_foreign(found, environ), *_misspelt(environ, name)]
    return replace(
        found,
        settings=tuple(_with_problem(row, refusals) for row in rows),
        sqs_problems=tuple(sqs.values()),
    )


def _choose(environ: Mapping[str, str], connection: object) -> Setting:
    """The setting that holds the connection's name."""
    given = _text(environ, CONNECTION_NAME)
    if connection is not None and connection != "":
        text, source = connection, "argument"
    elif given is not None:
        text, source = given, CONNECTION_NAME
    else:
        text, source = DEFAULT_CONNECTION, "default"
    owner = "connection" if source == "argument" else CONNECTION_NAME
    try:
        value = read_connection_name(str(text).strip())
    except ValueError as error:
        shown = masked(str(text))
        problem = _problem(owner, shown, error)
        return Setting(key=CONNECTION_NAME, value=shown, source=source, problem=problem)
    return Setting(key=CONNECTION_NAME, value=value, source=source)


def _look_up(key: Key[T], environ: Mapping[str, str], name: str) -> tuple[Setting, T | None]:
    own = key.variable(name)
    source, text = own, _text(environ, own)
    if text is None and key.shared:
        source = key.variable(DEFAULT_CONNECTION)
        text = _text(environ, source)
    if text is None:
        # A named connection exists by being set, so that a slip in its name is no new connection.
        default = None if key is CONNECTION and name != DEFAULT_CONNECTION else key.default
        shown = None if default is None else str(default).lower()
        return Setting(key=own, value=shown, source="default" if shown else "not set"), default
    shown = masked(text)
    try:
        return Setting(key=own, value=shown, source=source), key.read(text)
    except ValueError as error:
        problem = _problem(source, shown, error)
        return Setting(key=own, value=shown, source=source, problem=problem), None


def _text(environ: Mapping[str, str], variable: str) -> str | None:
    return environ.get(variable, "").strip() or None


def _problem(variable: str, shown: str, reason: object) -> str:
    return f"{variable} is {shown!r}: {reason}"


def _with_problem(setting: Setting, refusals: Mapping[str, str]) -> Setting:
    problem = setting.problem or refusals.get(setting.key)
    return setting if problem is None else replace(setting, problem=problem, note=None)


def _check_connection(found: Examined, environ: Mapping[str, str]) -> dict[str, str]:
    name = found.connection or DEFAULT_CONNECTION
    variable = CONNECTION.variable(name)
    if _text(environ, variable) is not None or name == DEFAULT_CONNECTION:
        return {}
    others = ", ".join([DEFAULT_CONNECTION, *_connections(environ)])
    return {
        variable: f"{variable} isn't set, so there is no connection {name!r}: set it, to sqs or to "
        f"a backend's name, or choose another connection; there are: {others}"
    }


def _connections(environ: Mapping[str, str]) -> list[str]:
    names = [
        match[1].lower().replace("_", "-")
        for match in map(_ANY_CONNECTION.match, environ)
        if match and match[2] == CONNECTION.name and match[1] != DEFAULT_CONNECTION.upper()
        if _text(environ, match[0]) is not None
    ]
    return sorted(names)


def _check_plaintext(found: Examined) -> dict[str, str]:
    endpoint, plaintext = found.value(SQS_ENDPOINT), found.value(SQS_PLAINTEXT)
    if endpoint is None or plaintext is not False or endpoint.lower().startswith("https:"):
        return {}
    variable, switch = _variables(found, SQS_ENDPOINT, SQS_PLAINTEXT)
    reason = f"plain http is refused: use https://, or set {switch}=true to have it all the same"
    return {variable: _problem(variable, endpoint, reason)}


def _check_region(found: Examined) -> dict[str, str]:
    (variable,) = _variables(found, SQS_REGION)
    if found.value(SQS_REGION) is not None:
        return {}
    return {
        variable: f"{variable} isn't set: SQS queues need it, such as eu-west-1; AWS_REGION and "
        "AWS_DEFAULT_REGION don't count here"
    }


def _check_foreign_endpoint(found: Examined, environ: Mapping[str, str]) -> dict[str, str]:
    """Whoever sets these for another service would send jobs there."""
    (own,) = _variables(found, SQS_ENDPOINT)
    if _text(environ, own) is not None:
        return {}
    reason = f"jobq doesn't go by it: set {own} to where SQS answers, or unset this variable"
    return {
        variable: _problem(variable, masked(text), reason)
        for variable in _FOREIGN_ENDPOINTS
        if (text := _text(environ, variable)) is not None
    }


def _variables(found: Examined, *keys: Key[Any]) -> list[str]:
    return [key.variable(found.connection or DEFAULT_CONNECTION) for key in keys]


def _foreign(found: Examined, environ: Mapping[str, str]) -> list[Setting]:
    (own,) = _variables(found, SQS_ENDPOINT)
    return [
        Setting(key=one, value=masked(text), source=one, note=f"not used: {own} alone counts")
        for one in _FOREIGN_ENDPOINTS
        if (text := _text(environ, one)) is not None
    ]


def _aws(found: Examined, environ: Mapping[str, str]) -> list[Setting]:
    (own,) = _variables(found, SQS_REGION)
    regions = [
        Setting(key=one, value=text, source=one, note=f"not used: {own} alone counts")
        for one in _REGIONS
        if (text := _text(environ, one)) is not None
    ]
    credentials = [
        Setting(key=one, value=_HIDDEN, source=one, note="the SDK looks here for credentials")
        for one in _CREDENTIALS
        if _text(environ, one) is not None
    ]
    return regions + credentials


def _misspelt(environ: Mapping[str, str], name: str) -> list[Setting]:
    """Variables that nothing reads, by slips in the names of those that this connection reads."""
    found: list[Setting] = []
    for variable in sorted(environ):
        key = _meant(variable, environ, name)
        if key is not None and _text(environ, variable) is not None:
            problem = f"{variable} is set and means nothing: {key} does; rename it, or unset it"
            found.append(Setting(key=variable, value=_HIDDEN, source=variable, problem=problem))
    return found


def _meant(variable: str, environ: Mapping[str, str], name: str) -> str | None:
    prefix = prefix_of(name)
    read = {key.variable(name) for key in KEYS} | {CONNECTION_NAME}
    read |= {key.variable(DEFAULT_CONNECTION) for key in KEYS}
    if not variable.startswith(PREFIX) or variable in read or _elsewhere(variable, environ, name):
        return None
    own = variable.startswith(prefix)
    near = PREFIX if not own else prefix
    wanted = [key.name for key in KEYS if own or key.shared]
    wanted += [CONNECTION_NAME.removeprefix(PREFIX)] if near == PREFIX else []
    key = meant(variable.removeprefix(near), wanted)
    return None if key is None else f"{near}{key}"


def _elsewhere(variable: str, environ: Mapping[str, str], name: str) -> bool:
    """Whether it is another connection's to read."""
    others = [one for one in _connections(environ) if one != name]
    if any(variable.startswith(prefix_of(one)) for one in others):
        return True
    shaped = _ANY_CONNECTION.match(variable)
    # A connection named sqs or default is more likely to be meant for a plain key.
    return shaped is not None and shaped[1] not in ("SQS", DEFAULT_CONNECTION.upper())
