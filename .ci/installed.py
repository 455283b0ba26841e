"""Checks an environment in which one distribution was installed: `installed.py DISTRIBUTION`."""

import sys
from importlib import metadata, resources, util

BRINGS = {
    "jobq-core": set[str](),
    "jobq-sqs-common": {"jobq-core"},
    "jobq-sqs-fifo": {"jobq-core", "jobq-sqs-common"},
    "jobq-sqs-standard": {"jobq-core", "jobq-sqs-common"},
    "jobq-worker": {"jobq-core"},
}


def importable(leaf: str) -> bool:
    try:
        return util.find_spec(leaf) is not None
    except ModuleNotFoundError:  # not even its parent is there
        return False


def main(distribution: str) -> None:
    expected = BRINGS[distribution] | {distribution}
    names = {found.metadata["Name"] for found in metadata.distributions()}
    installed = {name for name in names if name.startswith("jobq")}
    if installed != expected:
        sys.exit(f"{distribution} should bring {sorted(expected)}, but {sorted(installed)} came")
    for other in BRINGS:
        leaf = other.replace("-", ".")
        if importable(leaf) != (other in expected):
            sys.exit(f"{leaf} is importable: {importable(leaf)}; installed: {sorted(installed)}")
    leaf = distribution.replace("-", ".")
    if not resources.files(leaf).joinpath("py.typed").is_file():
        sys.exit(f"the wheel of {distribution} lacks py.typed")
    print(f"{distribution}: brings {sorted(expected)} and nothing else of jobq")


main(sys.argv[1])
