from mlxlm_cache.table import capability_table


def test_a_row_for_each_cache_and_a_column_for_each_capability() -> None:
    header, _, *rows = capability_table().splitlines()
    assert header == "| cache | trim | quantize | merge | checkpoint | bounded |"
    by_name = {row.split("`")[1]: row.split(" | ")[1:] for row in rows}
    assert by_name["KVCache"][:2] == ["yes", "yes"]
    assert by_name["RotatingKVCache"][0] == "until it drops tokens"
    assert by_name["RotatingKVCache"][-1] == "yes |"
