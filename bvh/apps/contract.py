"""Contract: what the package promises, on one page, as text."""

from importlib.resources import files


def guide() -> str:
    """Return the contract of the package on one page: shapes, units, misses, errors, calls.

    The page is meant for programs that write programs; it is Markdown, and a page of the
    documentation, too.

    Returns
    -------
    str

    Examples
    --------
    >>> import bvh
    >>> bvh.guide().splitlines()[0]
    '# The contract, on one page'
    """
    return files("bvh").joinpath("docs", "contract.md").read_text("utf-8")
