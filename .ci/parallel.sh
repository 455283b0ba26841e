# Sourced: `for_each_package FUNCTION` calls an exported function with each package's name, three at a
# time, since most of their tests' time is waiting. What each prints comes in one piece; the first
# failure fails the whole.

packages_longest_first=(jobq-worker jobq-sqs-standard jobq-sqs-fifo jobq-core jobq-sqs-common)

for_each_package() {
    diff <(printf '%s\n' "${packages_longest_first[@]}" | sort) <(ls "$root/packages" | sort)
    export -f "$1" in_one_piece
    export root
    printf '%s\n' "${packages_longest_first[@]}" |
        xargs -P 3 -I{} bash -euo pipefail -c "in_one_piece $1 {}"
}

in_one_piece() {
    local output code=0
    output=$(mktemp)
    # A shell of its own: in one whose failure is caught here, `set -e` would count for nothing.
    bash -euo pipefail -c "$*" >"$output" 2>&1 </dev/null || code=$?
    cat "$output"
    rm -f "$output"
    return "$code"
}
