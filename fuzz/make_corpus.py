#!/usr/bin/env python3
"""Writes the seeds of fuzz/corpus from testdata/libp2p: real bytes of rust, js and go peers, so
that mutations start inside the protocols. Other seeds are made here by hand; those of replica are
the messages of core_replica_test, as they were encoded.

usage: make_corpus.py (from anywhere; rewrites fuzz/corpus/*/seed-*)"""

import json
import pathlib
import struct
import zlib

FUZZ = pathlib.Path(__file__).resolve().parent
VECTORS = FUZZ.parent / "testdata" / "libp2p"


def load(name):
    return json.loads((VECTORS / name).read_text())


def strip_varint(data):
    length = next(i for i, byte in enumerate(data) if byte < 0x80)
    return data[length + 1:]


def message(text):
    """One message of multistream-select."""
    return bytes([len(text) + 1]) + text.encode() + b"\n"


def sessions():
    return load("wire.json")["sessions"].values()


def multistream():
    header = message("/multistream/1.0.0")
    yield b"\x00" + header + message("/noise")
    yield b"\x01" + header + message("/foo/1") + message("/meshsub/1.1.0") + b"rest"
    yield b"\x03" + header + message("na") + message("na") + message("/noise")
    yield b"\x00" + header + message("ls")


def noise():
    """What the initiator sent, whole and in pieces; then the same of the responder."""
    transcript = load("rust.json")["noise_transcript"]
    framed = [struct.pack(">H", len(m)) + m
              for m in map(bytes.fromhex, transcript["messages_without_length_prefix"])]
    sent = {"initiator": framed[0] + framed[2], "responder": framed[1]}
    for entry in transcript["transport"]:
        cipher = bytes.fromhex(entry["cipher"])
        sent[entry["from"]] += struct.pack(">H", len(cipher)) + cipher
    return [start + data for data in sent.values() for start in (b"\x00", b"\x07")]


def channel():
    """Flags (1: we listen, 2: private network, 4: behind Noise), size of the pieces, bytes."""
    header = message("/multistream/1.0.0")
    for side, data in zip((1, 0), noise()[::2]):  # What the initiator sent comes to a listener.
        for private in (0, 2):
            yield bytes([side | private, 0]) + header + message("/noise") + data[1:]
            yield bytes([side | private, 9]) + header + message("/noise") + data[1:]
    muxer = header + message("/yamux/1.0.0")
    ping = bytes.fromhex("00020001000000000000002a")
    for side in (0, 1):
        yield bytes([4 | side, 0]) + muxer + ping
        yield bytes([6 | side, 5]) + muxer + ping
    yield bytes([5, 0]) + header + message("/mplex/6.7.0") + message("/yamux/1.0.0") + ping


def framed_message():
    yield b"\x00" + b"\x05hello" + b"\x00" + b"\xac\x02" + b"." * 300
    yield b"\x01" + b"\x05hello" + b"\xe8\x07"
    yield b"\x07" + b"\xe9\x07"


def ping():
    yield b"\x20" + bytes(range(64)) + b"tail"
    yield b"\x01" + bytes([1, 31, 0, 125 * 2, 2, 0, 255, 1, 3, 0, 250])


def yamux():
    for session in sessions():
        for direction in ("in", "out"):
            frames = b"".join(bytes.fromhex(frame["hex"]) for frame in session["yamux_frames"]
                              if frame["dir"] == direction)
            # Frames of a recording may lack their bodies; the fuzzer does not mind.
            yield b"\x0b" + frames[:2000]
    yield b"\x05" + bytes.fromhex("000100010000000100000000" "000000000000000100000005" "68656c6c6f"
                                  "00020001000000000000002a" "000000040000000100000001" "21")


def identify():
    for session in sessions():
        for entry in session["identify"]:
            yield strip_varint(bytes.fromhex(entry["with_length_prefix"]))


def gossipsub():
    for session in sessions():
        rpcs = [strip_varint(bytes.fromhex(entry["with_length_prefix"]))
                for entry in session["gossipsub_rpcs"]]
        yield b"".join(struct.pack(">H", len(rpc)) + rpc for rpc in rpcs[:6] if len(rpc) < 3000)
    vectors = load("js.json")
    rpcs = [bytes.fromhex(rpc) for rpc in vectors["gossipsub_rpc"].values()]
    rpcs += [bytes.fromhex(entry["rpc"]) for entry in vectors["gossipsub"]]
    yield b"".join(struct.pack(">H", len(rpc)) + rpc for rpc in rpcs)


def mdns():
    for scene in load("wire.json")["mdns"].values():
        for packet in scene:
            yield bytes.fromhex(packet["hex"])


def dnssd():
    for packet in mdns():
        yield b"\x00" + packet
    # "a.local" is an alias of "b.local": a compressed name, and what the guard is there for.
    yield bytes.fromhex("00" "000084000000000100000000" "0161056c6f63616c00"
                        "0005800100000001" "0004" "0162c00e")
    peer = "12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5"
    texts = ["txtvers=1", f"device_id={peer}", "network=public", "version=0.1.0", "os_type=linux",
             "memory=34359738368", "gpu_memory=0", "rdma_support=false", "api=local",
             f"addr1=/ip4/10.0.0.2/tcp/4001/p2p/{peer}",
             f"addr2=/ip6/fe80::2/tcp/4001/p2p/{peer}"]
    yield b"\x01" + b"".join(bytes([len(text)]) + text.encode() for text in texts)
    yield b"\x01" + b"".join(bytes([len(text)]) + text.encode() for text in texts[1:3])


def multiaddr():
    for entry in load("rust.json")["multiaddr"]:
        yield bytes.fromhex(entry["bytes"])
        yield entry["text"].encode()
    for entry in load("rust.json")["peer_id"]:
        yield bytes.fromhex(entry["peer_id_bytes"])
        yield entry["peer_id"].encode()
    yield b"[fe80::1%eth0]:4001"
    yield b"node.local:80"


def cluster_token():
    def token(content):
        content += zlib.crc32(content).to_bytes(4, "big")
        letters = (len(content) * 8 + 4) // 5
        number = int.from_bytes(content, "big") << (letters * 5 - len(content) * 8)
        alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
        text = (alphabet[number >> 5 * place & 31] for place in reversed(range(letters)))
        return "exo1-" + "".join(text)

    secret = bytes(range(32))
    addresses = ["04c0a80114065dc1", "29fd000000000000000000000000000020065dc1"]
    packed = b"".join(bytes([len(a)]) + a for a in map(bytes.fromhex, addresses))
    for content in (secret + b"\x00", secret + b"\x02" + packed):
        yield content
        yield token(content).encode()
    yield token(secret + b"\x02" + packed).upper().encode() + b"\r\n"


def gguf():
    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    def pair(key, kind, value):
        return text(key) + struct.pack("<I", kind) + value

    pairs = [
        pair("general.architecture", 8, text("llama")),
        pair("llama.block_count", 4, struct.pack("<I", 2)),
        pair("llama.context_length", 4, struct.pack("<I", 128)),
        pair("llama.embedding_length", 4, struct.pack("<I", 32)),
        pair("llama.attention.head_count", 4, struct.pack("<I", 4)),
        pair("llama.rope.freq_base", 6, struct.pack("<f", 10000.0)),
        pair("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 2) + text("a") + text("b")),
        pair("llama.attention.head_count_kv", 9, struct.pack("<IQII", 4, 2, 4, 4)),
    ]
    tensor = text("token_embd.weight") + struct.pack("<IQQIQ", 2, 32, 2, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(pairs)) + b"".join(pairs) + tensor
    padded = head + b"\x00" * (-len(head) % 32)
    yield padded + b"\x00" * 256
    yield head[:40]


def ipc():
    def frame(document):
        return struct.pack(">I", len(document)) + document

    empty_map, unknown = b"\x80", b"\x81\xa4type\xa7Unknown"
    yield b"\x00" + frame(empty_map) + frame(unknown)
    yield b"\x03" + frame(b"\x82\xa4type\xa8Shutdown\xa1x\x93\x01\xc0\xcb" + b"\x00" * 8)


def step_plan():
    def plan(kind, number, changes, tokens):
        return (struct.pack("<BBQI", 2, kind, number, len(changes)) + b"".join(changes)
                + struct.pack("<I", len(tokens)) + b"".join(tokens))

    removal = struct.pack("<BIii", 0, 3, 0, -1)
    copy = struct.pack("<BIIi", 1, 3, 1, 5)
    tokens = [struct.pack("<iiIB", 300 + i, i, 1, i == 2) for i in range(3)]
    yield plan(0, 7, [removal, copy], tokens)
    yield plan(0, 0, [], tokens[2:])
    yield plan(1, 258, [], [])


def peers():
    def field(number, data):
        return bytes([number << 3 | 2, len(data)]) + data

    def peer(key, *addresses):
        ident = bytes.fromhex("002408011220") + bytes([key] * 32)
        return field(1, field(1, ident) + b"".join(field(2, address) for address in addresses))

    ip4 = bytes.fromhex("040a000001060fa1")
    ip6 = bytes.fromhex("29fd000000000000000000000000000001060fa1")
    udp = bytes.fromhex("040a00000191020001")
    yield peer(1, ip4)
    yield peer(1, ip4, ip6) + peer(2, udp, ip4)
    yield peer(3) + peer(3, ip6) + b"\x18\x01"


def main():
    for make in (multistream, noise, channel, yamux, framed_message, identify, ping, gossipsub,
                 mdns, dnssd, peers, multiaddr, cluster_token, gguf, ipc, step_plan):
        folder = FUZZ / "corpus" / make.__name__.removeprefix("framed_")
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("seed-*"):
            old.unlink()
        for number, data in enumerate(dict.fromkeys(make())):
            (folder / f"seed-{number:02}").write_bytes(data)


if __name__ == "__main__":
    main()
