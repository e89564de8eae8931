"""What MySQL wrote: recorded, for no server of it is at hand."""

from __future__ import annotations

from ingest.sources.mariadb.log.binlog import Begin, Commit, Decoder
from ingest.sources.mariadb.log.table_map import TableMap, table_map

# A transaction in one event, of MySQL 8.0.28 with binlog_transaction_compression, and
# the file's first event.
FIRST = bytes.fromhex(
    "ce2b22620f706803007a0000007e00000000000400382e302e3238000000000000000000000000000000"
    "00000000000000000000000000000000000000000000000000000000000000000013000d000800000000"
    "0400040000006200041a08000000080808020000000a0a0a2a2a001234000a280001b3f1c6bc"
)
PAYLOAD = bytes.fromhex(
    "f12b22622870680300e8010000d402000000000201000303fcc0030103fcc3010028b52ffd0058bc0d00"
    "a6de61396067940e20012008822078126708828e2dacf1f7be444a8ad8524492100d861a2362147b1007"
    "fbf64580256b5bd632f68cfab1330b5df2490a570051005100ffa13fcbb24ce18cc8f1a8ba1a24c9e4f3"
    "2c42c43804fd7186c623900812291cdbd6a0ad84b7b554e3d0293ef1a8ba064892c947c18303a6f26791"
    "43019efdf14783825894f0ff98074fe806bef0c7358faa8b2149269f9cbc607d99d8205c076f33b96edb"
    "93d4212ac59d49cfe34510b931ee57496cddd3ca12d72937eaa925b5511d759643e0b7105bce1d1ea7f0"
    "e1007e0704882d27b782c92dd76a14a9c97d31c89d78c10b048c3964b95793dd2cde6ebee0dc3ec9d24d"
    "36e52891d9c34956de4d10f5ba1a6eb25dab447c4bb1c24dbae56e9a68a9c3e4c5a41071a97e70931eaa"
    "9b1331eaa9d413c98d2944bc98da7522d251624585ebffffbfe1041e55178324997cbac189120560fb3a"
    "706a1209b9d3963e9578a439d7966cceed259b1b37c5236d9a3aaee1db4a36f594df5662435e8b47c96e"
    "4f2fb141e5bec403cb3db5f73a22bb71120009854035794b15bc0721b7e28199091142cf5441022b1083"
    "002b37726d04cec0c2c063001ca035a0f300bc0100000f5f8930"
)
# A table with a column of each type, of MySQL 8.0 with binlog_row_metadata = FULL.
TYPES = bytes.fromhex(
    "047465737400065f7479706573003310010102090308f604050102090308f604050d0a131312121111fe"
    "0ffe0ffcfcfcfcfcfcfcfcfefefff5fefeffffffffffffff310008411e0408411e0408000600060006ee"
    "fefc03fe4040000102030401020304f701f8010404f801f701040404040404040000fcc3ffff07010300"
    "7f80030c1ce03f3f3f3f3f3fe0e0e0e00708000706050403020104fc050205625f626974096e5f626f6f"
    "6c65616e096e5f74696e79696e740a6e5f736d616c6c696e740b6e5f6d656469756d696e74056e5f696e"
    "74086e5f626967696e74096e5f646563696d616c076e5f666c6f6174086e5f646f75626c650a6e755f74"
    "696e79696e740b6e755f736d616c6c696e740c6e755f6d656469756d696e74066e755f696e74096e755f"
    "626967696e740a6e755f646563696d616c086e755f666c6f6174096e755f646f75626c6506745f796561"
    "7206745f6461746506745f74696d6507745f6674696d650a745f6461746574696d650b745f6664617465"
    "74696d650b745f74696d657374616d700c745f6674696d657374616d7006635f6368617209635f766172"
    "6368617208635f62696e6172790b635f76617262696e6172790a635f74696e79626c6f6206635f626c6f"
    "620c635f6d656469756d626c6f620a635f6c6f6e67626c6f620a635f74696e797465787406635f746578"
    "740c635f6d656469756d746578740a635f6c6f6e677465787406655f656e756d05735f7365740a675f67"
    "656f6d65747279066a5f6a736f6e06735f7365743207655f656e756d3214675f67656f6d65747279636f"
    "6c6c656374696f6e0e675f6d756c7469706f6c79676f6e11675f6d756c74696c696e65737472696e670c"
    "675f6d756c7469706f696e7409675f706f6c79676f6e0c675f6c696e65737472696e6707675f706f696e"
    "740b04e0e01c1c050a02013101320201330134060a02016101620201630164"
)


def test_a_transaction_in_one_event() -> None:
    made = Decoder(lambda table: None)
    assert made.decode(FIRST) == ()
    begun, table, whole = made.decode(PAYLOAD)
    assert begun == Begin()
    assert whole == Commit(1_646_406_641_000_000)
    assert isinstance(table, TableMap)
    assert (table.schema, table.name) == ("demo", "movies")
    assert "binlog_row_metadata" in table.problem


def test_a_table_of_all_types() -> None:
    found = {one.name: one for one in table_map(TYPES, is_mariadb=False).columns}
    assert len(found) == 51
    unsigned = {name for name, one in found.items() if one.is_unsigned}
    assert unsigned == {name for name in found if name.startswith("nu_")}
    collations = {one.collation for n, one in found.items() if n[:2] in ("c_", "j_")}
    assert collations == {0, 28, 63, 224}
    assert found["c_char"].length == 255 * 2
    assert (found["c_char"].collation, found["c_text"].collation) == (28, 224)
    assert (found["c_binary"].collation, found["c_blob"].collation) == (63, 63)
    assert (found["e_enum2"].words, found["e_enum2"].collation) == ((b"c", b"d"), 28)
    assert (found["s_set"].words, found["s_set"].collation) == ((b"1", b"2"), 224)
    assert (found["n_decimal"].length, found["n_decimal"].scale) == (65, 30)
    assert (found["t_ftime"].digits, found["t_time"].digits) == (6, 0)
    assert found["b_bit"].length == 64
    assert not found["n_int"].is_nullable
    assert found["j_json"].is_nullable
