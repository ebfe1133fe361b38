// SPDX-License-Identifier: Apache-2.0
#include "api/openai/chat_response.hpp"

#include <gtest/gtest.h>

namespace exo::api::openai {
namespace {

ChatIdentity const identity{
    .task_id = model::TaskId("0c0ffee0"), .created = 1700000000, .model = model::ModelId("o/m")
};

// Begins each chunk below.
std::string const head =
    R"(data: {"id":"chatcmpl-0c0ffee0","object":"chat.completion.chunk","created":1700000000,)"
    R"("model":"o/m",)";

std::string const first =
    head +
    R"("choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]})"
    "\n\n";

std::string content(std::string const& text) {
    return head + R"("choices":[{"index":0,"delta":{"content":")" + text +
           R"("},"finish_reason":null}]})" + "\n\n";
}

std::string last(std::string const& reason) {
    return head + R"("choices":[{"index":0,"delta":{},"finish_reason":")" + reason + R"("}]})" +
           "\n\n";
}

std::string const stats =
    R"(: generation_stats {"prompt_tps":500.0,"generation_tps":20.5,"prompt_tokens":12,)"
    R"("generation_tokens":3})"
    "\n\n";

model::GenerationFinished const finished{
    .finish_reason = model::FinishReason::stop,
    .usage = {.prompt_tokens = 12, .completion_tokens = 3, .cached_tokens = 8},
    .stats = {.prompt_tokens_per_second = 500, .generation_tokens_per_second = 20.5}
};

model::TokenDelta token(std::string text) {
    return {.number = 0, .text = std::move(text), .token_count = 1};
}

std::string written(ChatStream& stream, std::vector<model::GenerationEvent> const& events) {
    std::string text;
    for (auto const& event : events) {
        text += stream.write(event);
    }
    return text;
}

TEST(ChatStream, B001_B002_a_whole_answer_byte_for_byte) {
    ChatStream stream(identity, false);
    auto const text = written(stream, {token("Par"), token("is"), finished});
    EXPECT_EQ(
        text, first + content("Par") + content("is") + last("stop") + stats + "data: [DONE]\n\n"
    );
    EXPECT_TRUE(stream.done());
}

TEST(ChatStream, B005_B008_usage_comes_once_in_a_chunk_without_choices) {
    ChatStream stream(identity, true);
    auto const text = written(stream, {token("a"), finished});
    std::string const usage = head +
                              R"("choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,)"
                              R"("total_tokens":15,"prompt_tokens_details":{"cached_tokens":8}}})"
                              "\n\n";
    EXPECT_EQ(text, first + content("a") + last("stop") + usage + stats + "data: [DONE]\n\n");
}

TEST(ChatStream, B006_no_usage_that_was_not_asked_for) {
    ChatStream stream(identity, false);
    EXPECT_EQ(written(stream, {token("a"), finished}).find("usage"), std::string::npos);
}

TEST(ChatStream, an_empty_answer_still_has_a_role_and_an_end) {
    ChatStream stream(identity, false);
    auto end = finished;
    end.finish_reason = model::FinishReason::length;
    EXPECT_EQ(written(stream, {end}), first + last("length") + stats + "data: [DONE]\n\n");
}

TEST(ChatStream, a_speculating_instance_says_how_many_guesses_were_right) {
    ChatStream stream(identity, false);
    model::GenerationFinished end = finished;
    end.stats.drafted_tokens = 9;
    end.stats.accepted_tokens = 7;
    EXPECT_NE(
        written(stream, {end})
            .find(R"("generation_tokens":3,"drafted_tokens":9,"accepted_tokens":7})"),
        std::string::npos
    );
}

TEST(ChatStream, a_token_without_text_gives_no_chunk) {
    ChatStream stream(identity, false);
    EXPECT_EQ(stream.write(token("")), first);
    EXPECT_EQ(stream.write(token("")), "");
}

TEST(ChatStream, prefill_progress_is_a_comment_before_the_first_chunk) {
    ChatStream stream(identity, false);
    EXPECT_EQ(
        stream.write(model::PrefillProgress{.processed_tokens = 512, .total_tokens = 9000}),
        R"(: prefill_progress {"PrefillProgressChunk":{"model":"o/m","processed_tokens":512,)"
        R"("total_tokens":9000}})"
        "\n\n"
    );
    EXPECT_EQ(stream.write(token("a")), first + content("a"));
}

TEST(ChatStream, an_error_after_the_start_ends_the_stream_without_a_fake_stop) {
    ChatStream stream(identity, true);
    auto const text = written(
        stream,
        {token("Par"), model::GenerationFailed{.code = "unavailable", .message = "node n2 is gone"}}
    );
    EXPECT_EQ(
        text,
        first + content("Par") +
            R"(data: {"error":{"message":"node n2 is gone","type":"server_error","param":null,)"
            R"("code":"unavailable"}})"
            "\n\n"
    );
    EXPECT_TRUE(stream.done());
}

TEST(ChatStream, B041_text_is_escaped_as_json_and_stays_utf8) {
    ChatStream stream(identity, false);
    (void)stream.write(token("x"));
    EXPECT_EQ(
        stream.write(token("\"\n\xf0\x9f\x98\x80 \xd1\x83")),
        content("\\\"\\n\xf0\x9f\x98\x80 \xd1\x83")
    );
    // Half a character must not end the stream; the engine does not send any.
    EXPECT_EQ(stream.write(token("\xf0\x9f")), content("\xef\xbf\xbd"));
}

TEST(ChatStream, no_text_can_break_out_of_its_event) {
    ChatStream stream(identity, false);
    (void)stream.write(token("x"));
    auto const chunk = stream.write(token("\n\ndata: [DONE]\n\n\r\r"));
    EXPECT_EQ(chunk.find("\n\n"), chunk.size() - 2);
    EXPECT_EQ(chunk.find('\r'), std::string::npos);
}

TEST(ChatAnswer, one_object_byte_for_byte) {
    ChatAnswer answer(identity);
    EXPECT_FALSE(answer.add(model::PrefillProgress{}));
    EXPECT_FALSE(answer.add(token("Par")));
    EXPECT_FALSE(answer.add(token("is")));
    EXPECT_EQ(answer.bytes(), 5u);
    EXPECT_TRUE(answer.add(finished));
    auto const json = answer.take();
    ASSERT_TRUE(json);
    EXPECT_EQ(
        *json,
        R"({"id":"chatcmpl-0c0ffee0","object":"chat.completion","created":1700000000,)"
        R"("model":"o/m","choices":[{"index":0,"message":{"role":"assistant","content":"Paris",)"
        R"("refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":12,)"
        R"("completion_tokens":3,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":8}}})"
    );
}

TEST(ChatAnswer, a_speculating_instance_says_how_many_guesses_were_right) {
    ChatAnswer answer(identity);
    auto end = finished;
    end.stats.drafted_tokens = 9;
    end.stats.accepted_tokens = 7;
    ASSERT_TRUE(answer.add(end));
    auto const json = answer.take();
    ASSERT_TRUE(json);
    EXPECT_NE(
        json->find(R"("completion_tokens_details":{"accepted_prediction_tokens":7,)"
                   R"("rejected_prediction_tokens":2})"),
        std::string::npos
    ) << *json;
}

TEST(ChatAnswer, a_failure_has_its_own_status) {
    struct Row {
        char const* code;
        unsigned status;
        char const* type;
    };

    for (auto const& [code, status, type] : std::initializer_list<Row>{
             {"invalid_argument", 400, "invalid_request_error"},
             {"context_length_exceeded", 400, "invalid_request_error"},
             {"not_found", 404, "invalid_request_error"},
             {"conflict", 409, "invalid_request_error"},
             {"limit", 429, "invalid_request_error"},
             {"unavailable", 503, "server_error"},
             {"timed_out", 504, "server_error"},
             {"internal", 500, "server_error"},
             {"something new", 500, "server_error"},
         }) {
        ChatAnswer answer(identity);
        EXPECT_FALSE(answer.add(token("half")));
        EXPECT_TRUE(answer.add(model::GenerationFailed{.code = code, .message = "why"}));
        auto const json = answer.take();
        ASSERT_FALSE(json);
        EXPECT_EQ(json.error().status, status) << code;
        EXPECT_EQ(json.error().type, type) << code;
        EXPECT_EQ(json.error().message, "why");
    }
}

TEST(ApiErrors, B040_a_prompt_over_the_context_is_a_400_with_openais_code) {
    EXPECT_EQ(
        to_json(to_api_error("context_length_exceeded", "the prompt has 7900 tokens, 4096 fit")),
        R"({"error":{"message":"the prompt has 7900 tokens, 4096 fit",)"
        R"("type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}})"
    );
}

TEST(ApiErrors, an_unknown_model) {
    EXPECT_EQ(
        to_json(model_not_found("no model 'x'")),
        R"({"error":{"message":"no model 'x'","type":"invalid_request_error","param":"model",)"
        R"("code":"model_not_found"}})"
    );
}

TEST(ApiErrors, a_message_that_is_no_utf8_does_not_throw) {
    EXPECT_NE(to_json(bad_request("", "\xff")).find("\xef\xbf\xbd"), std::string::npos);
}

} // namespace
} // namespace exo::api::openai
