// SPDX-License-Identifier: Apache-2.0
#include "ipc/frame.hpp"

#include <gtest/gtest.h>

namespace exo::ipc {
namespace {

Start start() {
    return {
        .instance_id = model::InstanceId("i"),
        .runner_id = model::RunnerId("r"),
        .generation = 3,
        .sharding = model::Sharding::tensor,
        .device_rank = 1,
        .world_size = 2,
        .shares = {9, 3},
        .model_paths = {"/models/a.gguf", "/models/b.gguf"},
        .context_length = 4096,
        .micro_batch = 64,
        .threads = 4,
        .device = "Vulkan0",
        .private_networks = {"10.1.2.0/24", "fd00:1::/64"},
    };
}

model::GenerationRequest request() {
    return {
        .task_id = model::TaskId("t"),
        .model = model::ModelId("m"),
        .messages = {{.role = "user", .content = "Wie geht's? \xF0\x9F\x98\x80", .name = {}}},
        .sampling = {.temperature = 0.5, .top_k = 40, .seed = 7},
        .max_tokens = 12,
        .stop = {"</s>"},
    };
}

std::vector<ToRunner> all_to_runner() {
    return {
        start(),
        Connect{
            .key_hex = std::string(64, 'a'),
            .endpoints = {{.addresses = {"10.0.0.1", "fe80::1%eth0"}, .port = 4000}, {}},
        },
        Generate{.request = request()},
        Cancel{.task_id = model::TaskId("t")},
        Shutdown{},
    };
}

std::vector<FromRunner> all_from_runner() {
    model::TaskId const task("t");
    return {
        Listening{.port = 4242},
        StatusChanged{.status = model::RunnerIdle{}},
        StatusChanged{.status = model::RunnerLoading{.layers_loaded = 3, .total_layers = 30}},
        StatusChanged{.status = model::RunnerFailed{"no memory", {"line 1", "line 2"}}},
        Generated{.task_id = task, .event = model::PrefillProgress{10, 20}},
        Generated{.task_id = task, .event = model::TokenDelta{0, "Hallo", 2}},
        Generated{
            .task_id = task,
            .event =
                model::GenerationFinished{
                    .finish_reason = model::FinishReason::length,
                    .usage = {1, 2, 0},
                    .stats = {1.5, 2.5},
                },
        },
        Generated{.task_id = task, .event = model::GenerationFailed{"limit", "too long"}},
        Fault{.message = "aborted"},
    };
}

template <class Message>
Bytes stream_of(std::vector<Message> const& messages) {
    Bytes stream;
    for (auto const& message : messages) {
        append(stream, *encode(message));
    }
    return stream;
}

// Feeds the stream in pieces and takes all that comes.
std::vector<Bytes> documents(Bytes const& stream, std::size_t piece) {
    FrameReader reader;
    std::vector<Bytes> found;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
        auto const rest = BytesView(stream).subspan(at);
        reader.feed(rest.first(std::min(piece, rest.size())));
        while (auto document = *reader.next()) {
            found.push_back(std::move(*document));
        }
    }
    EXPECT_EQ(reader.bytes_waiting(), 0u);
    return found;
}

TEST(Frame, every_message_to_a_runner_comes_back_whatever_the_cut) {
    auto const messages = all_to_runner();
    auto const stream = stream_of(messages);
    for (std::size_t piece = 1; piece < 300; ++piece) {
        auto const found = documents(stream, piece);
        ASSERT_EQ(found.size(), messages.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
            ASSERT_TRUE(*decode_to_runner(found[i]) == messages[i]) << i;
        }
    }
}

TEST(Frame, every_message_from_a_runner_comes_back_whatever_the_cut) {
    auto const messages = all_from_runner();
    auto const stream = stream_of(messages);
    for (std::size_t piece = 1; piece < 300; ++piece) {
        auto const found = documents(stream, piece);
        ASSERT_EQ(found.size(), messages.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
            ASSERT_TRUE(*decode_from_runner(found[i]) == messages[i]) << i;
        }
    }
}

TEST(Frame, its_bytes_are_a_length_and_a_document_tagged_by_name) {
    // {"Listening": {"port": 4242}} in MessagePack.
    EXPECT_EQ(
        to_hex(*encode(FromRunner(Listening{.port = 4242}))),
        "00000014"
        "81a94c697374656e696e67"
        "81a4706f7274cd1092"
    );
    EXPECT_EQ(to_hex(*encode(ToRunner(Shutdown{}))), "0000000b81a853687574646f776e80");
}

TEST(Frame, a_length_over_the_limit_is_an_error_before_its_bytes_come) {
    FrameReader reader;
    reader.feed(*from_hex("04000001"));
    auto const result = reader.next();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::limit);
}

TEST(Frame, a_message_over_the_limit_is_not_made) {
    auto large = request();
    large.messages[0].content.assign(frame_bytes_max, 'x');
    auto const result = encode(ToRunner(Generate{.request = large}));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::limit);
}

TEST(Frame, a_cut_stream_leaves_bytes_waiting) {
    auto const frame = *encode(ToRunner(Shutdown{}));
    FrameReader reader;
    reader.feed(BytesView(frame).first(frame.size() - 1));
    EXPECT_FALSE(*reader.next());
    EXPECT_EQ(reader.bytes_waiting(), frame.size() - 1);
}

TEST(Frame, wrong_documents_are_protocol_errors) {
    for (auto const* wrong : {
             "",                                             // nothing
             "c1",                                           // no MessagePack
             "80",                                           // no tag
             "81a15880",                                     // an unknown tag
             "81a94c697374656e696e6780",                     // Listening without its port
             "81a94c697374656e696e6781a4706f7274ce00010000", // a port that is none
         }) {
        auto const result = decode_from_runner(*from_hex(wrong));
        ASSERT_FALSE(result) << wrong;
        EXPECT_EQ(result.error().code(), Errc::protocol) << wrong;
    }
    EXPECT_FALSE(decode_to_runner(*from_hex("81a94c697374656e696e6781a4706f7274cd1092")));
}

} // namespace
} // namespace exo::ipc
