// SPDX-License-Identifier: Apache-2.0
#include "api/openai/chat_request.hpp"

#include <gtest/gtest.h>

namespace exo::api::openai {
namespace {

// A request that is right but for `more`, which begins with a comma.
std::string with(std::string const& more) {
    return R"({"model": "m", "messages": [{"role": "user", "content": "Hi"}])" + more + "}";
}

ChatRequest accepted(std::string const& body) {
    auto const request = parse_chat_request(body);
    EXPECT_TRUE(request) << body.substr(0, 300) << ": " << request.error().message;
    return request ? *request : ChatRequest{};
}

// Refused with 400, naming this field, with a message that says this.
void expect_refused(
    std::string const& body, std::string const& param, std::string const& says = ""
) {
    auto const request = parse_chat_request(body);
    ASSERT_FALSE(request) << body.substr(0, 300);
    EXPECT_EQ(request.error().status, 400u);
    EXPECT_EQ(request.error().type, "invalid_request_error");
    EXPECT_EQ(request.error().param.value_or(""), param) << body.substr(0, 300);
    EXPECT_NE(request.error().message.find(says), std::string::npos) << request.error().message;
}

TEST(ChatRequest, every_field_reaches_the_generation_request) {
    auto const request = accepted(R"({
        "model": "owner/repo:Q4_K_M",
        "messages": [
            {"role": "system", "content": "Be brief.", "name": "ops"},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": ""}
        ],
        "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "seed": 7,
        "repetition_penalty": 1.1, "presence_penalty": -1, "frequency_penalty": 2,
        "max_completion_tokens": 100, "stop": ["END", "STOP"],
        "stream": true, "stream_options": {"include_usage": true},
        "n": 1, "user": "u", "metadata": {"a": "b"}, "store": false
    })");
    ChatRequest expected;
    expected.generation.model = model::ModelId("owner/repo:Q4_K_M");
    expected.generation.messages = {
        {.role = "system", .content = "Be brief.", .name = "ops"},
        {.role = "user", .content = "Hi", .name = std::nullopt},
        {.role = "assistant", .content = "", .name = std::nullopt}
    };
    expected.generation.sampling = {
        .temperature = 0.5,
        .top_p = 0.9,
        .top_k = 40,
        .min_p = 0.05,
        .seed = 7,
        .repetition_penalty = 1.1,
        .presence_penalty = -1,
        .frequency_penalty = 2
    };
    expected.generation.max_tokens = 100;
    expected.generation.stop = {"END", "STOP"};
    expected.stream = true;
    expected.include_usage = true;
    EXPECT_EQ(request, expected);
}

TEST(ChatRequest, what_is_left_out_or_null_is_absent) {
    ChatRequest expected;
    expected.generation.model = model::ModelId("m");
    expected.generation.messages = {{.role = "user", .content = "Hi", .name = std::nullopt}};
    EXPECT_EQ(accepted(with("")), expected);
    EXPECT_EQ(
        accepted(with(R"(, "temperature": null, "top_p": null, "top_k": null, "seed": null,
            "max_tokens": null, "max_completion_tokens": null, "stop": null, "stream": null,
            "stream_options": null, "tools": null, "tool_choice": null, "response_format": null,
            "logprobs": null, "n": null, "user": null, "metadata": null, "logit_bias": null)")),
        expected
    );
}

TEST(ChatRequest, unknown_fields_are_ignored) {
    accepted(with(R"(, "service_tier": "auto", "cache_prompt": true, "x": {"y": [1, 2]})"));
}

TEST(ChatRequest, bodies_that_are_no_json_object_are_refused) {
    for (auto const* body :
         {"", " ", "{", "nonsense", "{\"model\": \"m\",}", "{\"model\": \"\x80\"}", "\xff\xfe{}"}) {
        expect_refused(body, "", "not valid JSON");
    }
    expect_refused("[]", "", "must be a JSON object, got a list");
    expect_refused("null", "", "got null");
    expect_refused("3", "", "got a number");
}

TEST(ChatRequest, a_lone_surrogate_is_refused_and_a_pair_is_one_character) {
    expect_refused(
        R"({"model": "m", "messages": [{"role": "user", "content": "\ud83d"}]})",
        "",
        "not valid JSON"
    );
    auto const request = accepted(
        R"({"model": "m", "messages": [{"role": "user", "content": "\ud83d\ude00 \u0000"}]})"
    );
    EXPECT_EQ(request.generation.messages[0].content, std::string("\xf0\x9f\x98\x80 \0", 6));
}

TEST(ChatRequest, deep_nesting_is_refused_not_recursed_into) {
    expect_refused(with(", \"x\": " + std::string(100'000, '[')), "");
    expect_refused(
        with(", \"x\": " + std::string(10'000, '[') + std::string(10'000, ']')),
        "",
        "not valid JSON"
    );
}

TEST(ChatRequest, B037_messages_that_are_empty_missing_or_of_a_wrong_type) {
    expect_refused(R"({"model": "m"})", "messages", "missing");
    expect_refused(R"({"model": "m", "messages": null})", "messages", "missing");
    expect_refused(R"({"model": "m", "messages": []})", "messages", "has 0 messages");
    expect_refused(
        R"({"model": "m", "messages": "x"})", "messages", "a list expected, got a string"
    );
    expect_refused(R"({"model": "m", "messages": 123})", "messages", "got a number");
    expect_refused(R"({"model": "m", "messages": {}})", "messages", "got an object");
    expect_refused(R"({"model": "m", "messages": ["x"]})", "messages[0]", "an object expected");
    expect_refused(R"({"model": "m", "messages": [{}]})", "messages[0].role", "missing");
    expect_refused(
        R"({"model": "m", "messages": [{"role": "user", "content": "a"}, {"role": "user"}]})",
        "messages[1].content",
        "missing"
    );
    expect_refused(
        R"({"model": "m", "messages": [{"role": "user", "content": 5}]})",
        "messages[0].content",
        "got a number"
    );
    expect_refused(
        R"({"model": "m", "messages": [{"role": 5, "content": "a"}]})",
        "messages[0].role",
        "a string expected"
    );
}

TEST(ChatRequest, the_model_must_be_named) {
    expect_refused(R"({"messages": [{"role": "user", "content": "Hi"}]})", "model", "missing");
    expect_refused(R"({"model": 5, "messages": []})", "model", "a string expected, got a number");
    expect_refused(R"({"model": "", "messages": []})", "model", "empty");
    expect_refused(
        R"({"model": ")" + std::string(model_bytes_max + 1, 'm') + R"(", "messages": []})",
        "model",
        "513 bytes"
    );
}

TEST(ChatRequest, B026_content_may_be_a_list_of_text_parts_for_every_role) {
    for (std::string const role : {"system", "user", "assistant"}) {
        auto const request = accepted(
            R"({"model": "m", "messages": [{"role": ")" + role +
            R"(", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})"
        );
        EXPECT_EQ(request.generation.messages[0].content, "a\nb");
        EXPECT_EQ(request.generation.messages[0].role, role);
    }
    accepted(R"({"model": "m", "messages": [{"role": "user", "content": []}]})");
}

TEST(ChatRequest, B026_a_part_of_an_unsupported_type_is_named) {
    auto const part = [](std::string const& json) {
        return R"({"model": "m", "messages": [{"role": "user", "content": [)" + json + "]}]}";
    };
    expect_refused(
        part(R"({"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}})"),
        "messages[0].content[1].type",
        "'image_url' is not supported"
    );
    expect_refused(part("{}"), "messages[0].content[0].type", "missing");
    expect_refused(part(R"({"type": "text"})"), "messages[0].content[0].text", "missing");
    expect_refused(part(R"({"type": "text", "text": 1})"), "messages[0].content[0].text");
    expect_refused(part(R"("text")"), "messages[0].content[0]", "an object expected");
}

TEST(ChatRequest, B028_developer_is_system_and_an_invented_role_is_refused) {
    auto const role = [](std::string const& name) {
        return R"({"model": "m", "messages": [{"role": ")" + name +
               R"(", "content": "Be brief."}]})";
    };
    EXPECT_EQ(accepted(role("developer")).generation.messages[0].role, "system");
    expect_refused(role("banana"), "messages[0].role", "must be one of");
    expect_refused(role("User"), "messages[0].role", "must be one of");
    expect_refused(role("tool"), "messages[0].role", "not supported by exo yet");
}

TEST(ChatRequest, numbers_have_types_and_ranges) {
    struct Row {
        char const* field;
        char const* bad;
    };

    for (auto const& [field, bad] : std::initializer_list<Row>{
             {"temperature", "-0.1"},
             {"temperature", "2.1"},
             {"temperature", "1e999"},
             {"temperature", "\"0.5\""},
             {"temperature", "true"},
             {"top_p", "1.01"},
             {"top_p", "[0.5]"},
             {"min_p", "-1"},
             {"top_k", "-2"},
             {"top_k", "1.5"},
             {"top_k", "99999999999"},
             {"seed", "1.0"},
             {"seed", "\"7\""},
             {"seed", "18446744073709551615"},
             {"presence_penalty", "-2.5"},
             {"frequency_penalty", "3"},
             {"repetition_penalty", "0"},
             {"max_tokens", "0"},
             {"max_tokens", "-1"},
             {"max_tokens", "1.5"},
             {"max_completion_tokens", "99999999999999999999"},
             {"n", "0"},
             {"n", "129"},
         }) {
        auto const parsed = parse_chat_request(with(std::string(", \"") + field + "\": " + bad));
        ASSERT_FALSE(parsed) << field << " " << bad;
        // 1e999 is refused by the JSON parser already, which knows no field.
        EXPECT_EQ(parsed.error().param.value_or(field), field);
        EXPECT_EQ(parsed.error().status, 400u);
    }
    EXPECT_EQ(accepted(with(", \"temperature\": 0")).generation.sampling.temperature, 0.0);
    EXPECT_EQ(accepted(with(", \"temperature\": 2")).generation.sampling.temperature, 2.0);
    EXPECT_EQ(accepted(with(", \"top_k\": -1")).generation.sampling.top_k, 0);
}

TEST(ChatRequest, seeds_of_64_bits_are_folded_to_32) {
    auto const seed = [](std::string const& text) {
        return accepted(with(", \"seed\": " + text)).generation.sampling.seed;
    };
    EXPECT_EQ(seed("0"), 0u);
    EXPECT_EQ(seed("42"), 42u);
    EXPECT_EQ(seed("4294967296"), 1u);
    EXPECT_EQ(seed("4294967295"), 4294967294u); // All ones would mean "draw one".
    EXPECT_EQ(seed("-1"), seed("-1"));
    EXPECT_NE(seed("-9223372036854775808"), std::nullopt);
}

TEST(ChatRequest, the_two_names_of_max_tokens) {
    EXPECT_EQ(accepted(with(", \"max_tokens\": 5")).generation.max_tokens, 5u);
    EXPECT_EQ(
        accepted(with(", \"max_tokens\": 5, \"max_completion_tokens\": 5")).generation.max_tokens,
        5u
    );
    expect_refused(
        with(", \"max_tokens\": 5, \"max_completion_tokens\": 6"), "max_tokens", "differs"
    );
}

TEST(ChatRequest, stop_is_a_text_or_a_list_of_some) {
    EXPECT_EQ(
        accepted(with(", \"stop\": \"END\"")).generation.stop, (std::vector<std::string>{"END"})
    );
    EXPECT_TRUE(accepted(with(", \"stop\": []")).generation.stop.empty());
    for (auto const* bad : {"5", "\"\"", "[\"\"]", "[5]", "{}", "true", "[[\"a\"]]"}) {
        expect_refused(with(std::string(", \"stop\": ") + bad), "stop");
    }
    std::string many = "\"x\"";
    for (std::size_t i = 0; i < stops_max; ++i) {
        many += ", \"x\"";
    }
    expect_refused(with(", \"stop\": [" + many + "]"), "stop", "at most 16");
    expect_refused(with(", \"stop\": \"" + std::string(stop_bytes_max + 1, 'x') + "\""), "stop");
}

TEST(ChatRequest, stream_options_need_a_stream) {
    EXPECT_FALSE(accepted(with(", \"stream\": true, \"stream_options\": {}")).include_usage);
    expect_refused(with(", \"stream_options\": {\"include_usage\": true}"), "stream_options");
    expect_refused(with(", \"stream\": true, \"stream_options\": 1"), "stream_options");
    expect_refused(
        with(", \"stream\": true, \"stream_options\": {\"include_usage\": 1}"),
        "stream_options.include_usage",
        "a boolean expected"
    );
    expect_refused(with(", \"stream\": \"true\""), "stream", "a boolean expected, got a string");
}

struct Field {
    char const* json; // "name": value
    char const* name;
};

class Unsupported : public testing::TestWithParam<Field> {};

TEST_P(Unsupported, is_refused_by_name_never_ignored) {
    expect_refused(with(std::string(", ") + GetParam().json), GetParam().name, "exo yet");
}

INSTANTIATE_TEST_SUITE_P(
    B030_B035_B036,
    Unsupported,
    testing::Values(
        Field{R"("tools": [{"type": "function", "function": {"name": "f"}}])", "tools"},
        Field{R"("functions": [{"name": "f"}])", "functions"},
        Field{R"("tool_choice": "required")", "tool_choice"},
        Field{R"("tool_choice": {"type": "function", "function": {"name": "f"}})", "tool_choice"},
        Field{R"("function_call": {"name": "f"})", "function_call"},
        Field{R"("response_format": {"type": "json_object"})", "response_format"},
        Field{
            R"("response_format": {"type": "json_schema", "json_schema": {}})", "response_format"
        },
        Field{R"("response_format": {})", "response_format"},
        Field{R"("logprobs": true)", "logprobs"},
        Field{R"("top_logprobs": 3)", "top_logprobs"},
        Field{R"("logit_bias": {"50256": -100})", "logit_bias"},
        Field{R"("n": 3)", "n"},
        Field{R"("modalities": ["text", "audio"])", "modalities"},
        Field{R"("audio": {"voice": "x"})", "audio"},
        Field{R"("prediction": {"type": "content", "content": "x"})", "prediction"},
        Field{R"("reasoning_effort": "low")", "reasoning_effort"},
        Field{R"("enable_thinking": true)", "enable_thinking"},
        Field{R"("chat_template_kwargs": {"a": 1})", "chat_template_kwargs"},
        Field{R"("guided_json": {"type": "object"})", "guided_json"},
        Field{R"("grammar": "root ::= x")", "grammar"}
    ),
    [](auto const& row) { return std::string(row.param.name) + std::to_string(row.index); }
);

TEST(ChatRequest, fields_that_ask_for_nothing_are_accepted) {
    accepted(with(R"(, "tools": [], "tool_choice": "auto", "parallel_tool_calls": true,
        "functions": [], "function_call": "none", "response_format": {"type": "text"},
        "logprobs": false, "top_logprobs": 0, "logit_bias": {}, "modalities": ["text"])"));
    accepted(
        R"({"model": "m", "messages": [{"role": "assistant", "content": "x", "tool_calls": [],
            "function_call": null, "refusal": null, "audio": null}]})"
    );
}

TEST(ChatRequest, tool_calls_in_the_history_are_refused_by_name) {
    expect_refused(
        R"({"model": "m", "messages": [{"role": "assistant", "content": null, "tool_calls":
            [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}]})",
        "messages[0].tool_calls",
        "not supported"
    );
}

TEST(ChatRequest, types_of_fields_without_effect_still_count) {
    expect_refused(with(", \"user\": 5"), "user");
    expect_refused(with(", \"metadata\": []"), "metadata");
    expect_refused(with(", \"store\": \"yes\""), "store");
}

TEST(ChatRequest, too_many_messages_are_refused) {
    std::string messages = R"({"role": "user", "content": "x"})";
    for (std::size_t i = 0; i < messages_max; ++i) {
        messages += R"(, {"role": "user", "content": "x"})";
    }
    expect_refused(R"({"model": "m", "messages": [)" + messages + "]}", "messages", "4097");
}

} // namespace
} // namespace exo::api::openai
