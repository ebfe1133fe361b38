// SPDX-License-Identifier: Apache-2.0
//
// Chat completions over the wire: streams, whole answers, and clients that leave or lag.
#include "fixture.hpp"

namespace exo::api::http::tests {
namespace {

using namespace std::chrono_literals;

// The data of a chunked stream; what is incomplete is left out.
std::string dechunked(std::string const& received) {
    std::string data;
    auto at = received.find("\r\n\r\n");
    at = at == std::string::npos ? received.size() : at + 4;
    while (at < received.size()) {
        auto const line = received.find("\r\n", at);
        if (line == std::string::npos) {
            break;
        }
        auto const size = std::stoul(received.substr(at, line - at), nullptr, 16);
        data += received.substr(line + 2, size);
        at = line + 2 + size + 2;
    }
    return data;
}

class Chat : public ServerTest {
protected:
    // A client with a stream that has begun.
    Client& stream() {
        auto& client = connect_and_send(streamed_chat());
        EXPECT_TRUE(run_until_received(client, ": keep-alive\n\n"));
        return client;
    }

    [[nodiscard]] bool is_freed(std::size_t number = 0) {
        return run_until([&] { return !backend_.scripts.at(number)->alive; });
    }
};

TEST_F(Chat, B003_B015_a_stream_begins_at_once_and_ends_with_done) {
    auto& client = stream();
    EXPECT_TRUE(client.received.starts_with("HTTP/1.1 200 OK\r\n"));
    EXPECT_TRUE(client.has("\r\nContent-Type: text/event-stream; charset=utf-8\r\n"));
    EXPECT_TRUE(client.has("\r\nCache-Control: no-cache\r\n"));
    EXPECT_TRUE(client.has("\r\nX-Accel-Buffering: no\r\n"));
    EXPECT_TRUE(dechunked(client.received).starts_with(": keep-alive\n\n"));
    script().token("Par");
    EXPECT_TRUE(run_until_received(client, R"("content":"Par")"));
    script().token("is");
    EXPECT_TRUE(run_until_received(client, R"("content":"is")"));
    script().finish();
    EXPECT_TRUE(run_until_received(client, "0\r\n\r\n"));
    EXPECT_TRUE(dechunked(client.received).ends_with("data: [DONE]\n\n"));
    EXPECT_TRUE(is_freed());
    EXPECT_EQ(server_->counters().hang_ups, 0u);
}

TEST_F(Chat, the_request_reaches_the_backend_with_the_models_id_and_an_id_of_its_own) {
    auto& client = connect_and_send(chat(R"(, "temperature": 0, "max_tokens": 5)"));
    auto const& request = script().request;
    EXPECT_EQ(request.model, model::ModelId("owner/demo"));
    EXPECT_EQ(request.task_id.value().size(), 36u);
    EXPECT_EQ(request.sampling.temperature, 0.0);
    EXPECT_EQ(request.max_tokens, 5u);
    EXPECT_EQ(request.messages.at(0).content, "Hi");
    script().finish();
    EXPECT_TRUE(run_until_received(client, "chatcmpl-" + request.task_id.value()));
}

TEST_F(Chat, a_whole_answer) {
    auto& client = connect_and_send(chat());
    script().token("Par");
    script().token("is");
    settle();
    EXPECT_EQ(client.received, "");
    script().finish();
    EXPECT_TRUE(run_until_received(client, R"("content":"Paris")"));
    EXPECT_TRUE(client.has("HTTP/1.1 200 OK"));
    EXPECT_TRUE(client.has("Content-Type: application/json"));
    EXPECT_TRUE(is_freed());
}

TEST_F(Chat, a_connection_serves_streams_and_answers_one_after_the_other) {
    auto& client = stream();
    script(0).token("one");
    script(0).finish();
    EXPECT_TRUE(run_until_received(client, "0\r\n\r\n"));
    client.send(chat());
    script(1).token("two");
    script(1).finish();
    EXPECT_TRUE(run_until_received(client, R"("content":"two")"));
    client.send(streamed_chat());
    script(2).token("three");
    script(2).finish();
    EXPECT_TRUE(run_until_received(client, R"("content":"three")"));
    EXPECT_EQ(server_->counters().connections, 1u);
}

TEST_F(Chat, a_request_sent_ahead_of_a_stream_waits_its_turn) {
    auto& client = connect_and_send(streamed_chat() + get("/node_id"));
    EXPECT_TRUE(run_until_received(client, ": keep-alive"));
    client.send(get("/health"));
    settle();
    EXPECT_TRUE(script().alive); // To send ahead is not to hang up.
    EXPECT_FALSE(client.has("\"n0\""));
    script().finish();
    EXPECT_TRUE(run_until_received(client, R"("status":"ok")"));
    EXPECT_LT(client.received.find("[DONE]"), client.received.find("\r\n\r\n\"n0\""));
}

TEST_F(Chat, B015_a_silent_stream_carries_comments) {
    options_.limits.keep_alive_time = 20ms;
    auto& client = stream(); // No event comes: the model is loading.
    EXPECT_TRUE(run_until([&] { return client.count(": keep-alive\n\n") >= 4; }));
    script().on_event(model::PrefillProgress{.processed_tokens = 1, .total_tokens = 2});
    EXPECT_TRUE(run_until_received(client, ": prefill_progress {"));
    script().token("a");
    script().finish();
    EXPECT_TRUE(run_until_received(client, "[DONE]"));
}

TEST_F(Chat, bad_requests_are_400_and_start_nothing) {
    auto& client =
        connect_and_send(post("/v1/chat/completions", R"({"model": "demo", "messages": []})"));
    EXPECT_TRUE(run_until_received(client, R"("param":"messages")"));
    EXPECT_TRUE(client.has("HTTP/1.1 400 Bad Request"));
    client.send(chat("", "embedder"));
    EXPECT_TRUE(run_until_received(client, "'embedder' cannot answer chats"));
    client.send(chat(R"(, "stream": true)", "unknown"));
    EXPECT_TRUE(run_until_received(client, "HTTP/1.1 404 Not Found"));
    EXPECT_TRUE(run_until_received(client, R"("code":"model_not_found")"));
    EXPECT_TRUE(backend_.scripts.empty());
}

TEST_F(Chat, B040_a_stream_that_fails_at_once_gets_its_own_status) {
    options_.limits.head_time = 10s;
    auto& client = connect_and_send(streamed_chat());
    script().fail("context_length_exceeded", "7900 tokens, 4096 fit");
    EXPECT_TRUE(run_until_received(client, R"("code":"context_length_exceeded")"));
    EXPECT_TRUE(client.has("HTTP/1.1 400 Bad Request"));
    EXPECT_TRUE(is_freed());
    client.send(get("/node_id"));
    EXPECT_TRUE(run_until_received(client, "\"n0\""));
}

TEST_F(Chat, the_first_event_begins_the_stream_before_the_moment_is_over) {
    options_.limits.head_time = 1h;
    auto& client = connect_and_send(streamed_chat());
    script().token("a");
    EXPECT_TRUE(run_until_received(client, R"("content":"a")"));
}

TEST_F(Chat, a_failure_in_mid_stream_is_an_event_and_the_end) {
    auto& client = stream();
    script().token("Par");
    script().fail("unavailable", "node n2 is gone");
    EXPECT_TRUE(run_until_received(client, "0\r\n\r\n"));
    auto const data = dechunked(client.received);
    EXPECT_TRUE(data.ends_with("\"code\":\"unavailable\"}}\n\n")) << data;
    EXPECT_EQ(data.find("[DONE]"), std::string::npos);
    EXPECT_EQ(data.find("\"finish_reason\":\"stop\""), std::string::npos);
}

TEST_F(Chat, a_failure_of_a_whole_answer_has_its_status) {
    auto& client = connect_and_send(chat());
    script().token("half");
    script().fail("unavailable", "node n2 is gone");
    EXPECT_TRUE(run_until_received(client, "node n2 is gone"));
    EXPECT_TRUE(client.has("HTTP/1.1 503 Service Unavailable"));
    EXPECT_FALSE(client.has("half"));
}

TEST_F(Chat, a_stream_to_http_1_0_ends_with_its_connection) {
    auto request = streamed_chat();
    request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
    auto& client = connect_and_send(request);
    EXPECT_TRUE(run_until_received(client, "\r\n\r\n: keep-alive\n\n"));
    script().finish();
    EXPECT_TRUE(run_until([&] { return client.closed; }));
    EXPECT_TRUE(client.received.ends_with("data: [DONE]\n\n"));
    EXPECT_FALSE(client.has("chunked"));
}

TEST_F(Chat, B045_B046_a_client_that_hangs_up_frees_its_stream) {
    auto& client = stream();
    script().token("a");
    EXPECT_TRUE(run_until_received(client, R"("content":"a")"));
    client.hang_up();
    EXPECT_TRUE(is_freed());
    script().token("late"); // The runner may be a step behind.
    script().finish();
    settle();
    EXPECT_EQ(server_->counters().hang_ups, 1u);
    EXPECT_TRUE(run_until([&] { return server_->connections() == 0; }));
}

TEST_F(Chat, B045_a_client_that_hangs_up_frees_its_answer_before_any_token) {
    auto& client = connect_and_send(chat());
    (void)script();
    client.hang_up();
    EXPECT_TRUE(is_freed());
    EXPECT_EQ(server_->counters().hang_ups, 1u);
}

TEST_F(Chat, a_client_that_hangs_up_while_the_model_loads_frees_its_request) {
    options_.limits.head_time = 1h;
    auto& client = connect_and_send(streamed_chat());
    (void)script();
    client.hang_up();
    EXPECT_TRUE(is_freed());
}

TEST_F(Chat, a_slow_client_is_cut_off_and_its_request_cancelled) {
    options_.limits.stream_bytes_max = 64 * 1024;
    auto& client = stream();
    client.stop_reading();
    auto& slow = script();
    std::string const text(8 * 1024, 'x');
    // The sockets' own buffers take some of it first.
    EXPECT_TRUE(run_until([&] {
        if (slow.alive) {
            slow.token(text);
        }
        return !slow.alive;
    }));
    EXPECT_EQ(server_->counters().slow_clients, 1u);
    EXPECT_EQ(server_->counters().hang_ups, 0u);
    EXPECT_TRUE(run_until([&] { return server_->connections() == 0; }));
}

TEST_F(Chat, many_small_events_that_nobody_reads_are_bounded_too) {
    options_.limits.stream_events_max = 100;
    auto& client = stream();
    for (int i = 0; i < 101; ++i) {
        script().token("x"); // In one go: the server has no chance to write.
    }
    EXPECT_TRUE(is_freed());
    EXPECT_TRUE(run_until([&] { return client.closed; }));
    EXPECT_EQ(server_->counters().slow_clients, 1u);
}

TEST_F(Chat, a_client_that_takes_nothing_for_long_is_closed) {
    options_.limits.write_time = 50ms;
    options_.limits.stream_bytes_max = 1u << 30;
    auto& client = stream();
    client.stop_reading();
    script().token(std::string(2 << 20, 'x')); // More than the sockets' buffers hold.
    EXPECT_TRUE(is_freed());
    EXPECT_EQ(server_->counters().slow_clients, 1u);
}

TEST_F(Chat, an_answer_that_grows_without_end_is_cut_off) {
    options_.limits.answer_bytes_max = 10;
    auto& client = connect_and_send(chat());
    script().token("0123456789a");
    EXPECT_TRUE(run_until_received(client, "the answer became too long"));
    EXPECT_TRUE(is_freed());
}

TEST_F(Chat, stopping_ends_streams_with_an_error_and_answers_with_503) {
    auto& streaming = stream();
    script(0).token("Par");
    auto& waiting = connect_and_send(chat());
    (void)script(1);
    bool stopped = false;
    server_->stop([&] { stopped = true; });
    EXPECT_TRUE(run_until([&] { return stopped && streaming.closed && waiting.closed; }));
    EXPECT_TRUE(streaming.has("this node is shutting down"));
    EXPECT_TRUE(streaming.received.ends_with("0\r\n\r\n"));
    EXPECT_FALSE(streaming.has("[DONE]"));
    EXPECT_TRUE(waiting.has("HTTP/1.1 503 Service Unavailable"));
    EXPECT_FALSE(backend_.scripts[0]->alive);
    EXPECT_FALSE(backend_.scripts[1]->alive);
}

TEST_F(Chat, stopping_does_not_wait_for_a_client_that_does_not_read) {
    options_.limits.stream_bytes_max = 1u << 30;
    auto& client = stream();
    client.stop_reading();
    script().token(std::string(2 << 20, 'x'));
    settle();
    auto const begin = std::chrono::steady_clock::now();
    bool stopped = false;
    server_->stop([&] { stopped = true; });
    EXPECT_TRUE(run_until([&] { return stopped; }));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s); // 0.7 s on a machine that is not busy.
    EXPECT_FALSE(script().alive);
}

TEST_F(Chat, destroying_the_server_frees_everything_before_the_backend_can_go) {
    auto& client = stream();
    auto& running = script();
    server_.reset();
    EXPECT_FALSE(running.alive);
    running.token("late");
    EXPECT_TRUE(run_until([&] { return client.closed; }));
}

} // namespace
} // namespace exo::api::http::tests
