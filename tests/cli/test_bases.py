"""``postshift bases``: the list of bases, and how to write your own."""

from postshift.basis import basis_catalogue
from tests.cli.helpers import inside, postshift


def test_bases_lists_every_one_and_how_to_write_ones_own():
    found = postshift("bases", "--json").json
    assert found["bases"] == basis_catalogue()
    assert "col:COLUMN" in found["own"]
    assert inside("bases").out.count("\n") > len(basis_catalogue())
