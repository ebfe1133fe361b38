"""Writes a tiny model that runs and cannot be cut by tensor: Mamba has no heads to share out.

Its weights are zeros and its vocabulary is that of another GGUF; what it says is of no use.
"""
import struct

WIDTH, LAYERS, INNER, STATE, RANK, CONV = 64, 4, 128, 16, 4, 4
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # By type of value.
UINT32, FLOAT32, STRING, ARRAY = 4, 6, 8, 9
ALIGNMENT = 32


def write(path, vocabulary_of):
    values, tokens = tokenizer_of(vocabulary_of.read_bytes())
    values["general.architecture"] = struct.pack("<I", STRING) + text("mamba")
    for key, number in {
        "context_length": 512,
        "embedding_length": WIDTH,
        "feed_forward_length": 0,
        "attention.head_count": 0,
        "block_count": LAYERS,
        "ssm.conv_kernel": CONV,
        "ssm.inner_size": INNER,
        "ssm.state_size": STATE,
        "ssm.time_step_rank": RANK,
    }.items():
        values[f"mamba.{key}"] = struct.pack("<II", UINT32, number)
    values["mamba.attention.layer_norm_rms_epsilon"] = struct.pack("<If", FLOAT32, 1e-5)
    shapes = {"token_embd.weight": (WIDTH, tokens), "output_norm.weight": (WIDTH,)}
    for i in range(LAYERS):
        shapes |= {
            f"blk.{i}.attn_norm.weight": (WIDTH,),
            f"blk.{i}.ssm_in.weight": (WIDTH, 2 * INNER),
            f"blk.{i}.ssm_conv1d.weight": (CONV, INNER),
            f"blk.{i}.ssm_conv1d.bias": (INNER,),
            f"blk.{i}.ssm_x.weight": (INNER, RANK + 2 * STATE),
            f"blk.{i}.ssm_dt.weight": (RANK, INNER),
            f"blk.{i}.ssm_dt.bias": (INNER,),
            f"blk.{i}.ssm_a": (STATE, INNER),
            f"blk.{i}.ssm_d": (INNER,),
            f"blk.{i}.ssm_out.weight": (INNER, WIDTH),
        }
    header = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(values))
    header += b"".join(text(key) + value for key, value in values.items())
    offset = 0
    for name, shape in shapes.items():
        header += text(name) + struct.pack("<I", len(shape))
        header += b"".join(struct.pack("<Q", extent) for extent in shape)
        header += struct.pack("<IQ", 0, offset)  # F32
        size = 4
        for extent in shape:
            size *= extent
        offset += padded(size)
    header += bytes(padded(len(header)) - len(header))
    path.write_bytes(header + bytes(offset))


def padded(size):
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def tokenizer_of(data):
    """The metadata of the tokenizer, each value as it stands in the file; the number of tokens."""

    def number(form, at):
        return struct.unpack_from(form, data, at)[0]

    def end_of(kind, at):
        if kind == STRING:
            return at + 8 + number("<Q", at)
        if kind != ARRAY:
            return at + SIZES[kind]
        inner, count = number("<I", at), number("<Q", at + 4)
        at += 12
        if inner != STRING:
            return at + SIZES[inner] * count
        for _ in range(count):
            at = end_of(STRING, at)
        return at

    values, tokens, at = {}, 0, 24
    for _ in range(number("<Q", 16)):
        key_end = end_of(STRING, at)
        key, at = data[at + 8 : key_end].decode(), key_end
        end = end_of(number("<I", at), at + 4)
        if key.startswith("tokenizer."):
            values[key] = data[at:end]
        if key == "tokenizer.ggml.tokens":
            tokens = number("<Q", at + 8)
        at = end
    return values, tokens
