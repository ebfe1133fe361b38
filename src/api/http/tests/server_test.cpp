// SPDX-License-Identifier: Apache-2.0
//
// Requests and answers, limits and faults.
#include "base/random.hpp"
#include "fixture.hpp"

namespace exo::api::http::tests {
namespace {

using namespace std::chrono_literals;

TEST_F(ServerTest, answers_the_simple_routes) {
    // Strangers name themselves: it need not be UTF-8.
    backend_.diagnosis = {{"findings", {{{"message", "10.0.0.2 \xff"}}}}};
    auto& client = connect_and_send(get("/node_id"));
    EXPECT_TRUE(run_until_received(client, "\r\n\r\n\"n0\""));
    client.send(get("/health"));
    EXPECT_TRUE(run_until_received(client, R"("status":"ok")"));
    client.send(get("/state"));
    EXPECT_TRUE(run_until_received(client, R"("lastEventAppliedIdx":-1)"));
    client.send(get("/v1/models"));
    EXPECT_TRUE(run_until_received(client, R"("id":"owner/demo")"));
    client.send(get("/v1/models/owner/demo"));
    EXPECT_TRUE(run_until([&] { return client.count(R"("id":"owner/demo")") == 2; }));
    client.send(get("/state/masterNodeId"));
    EXPECT_TRUE(run_until([&] { return client.count("\r\n\r\n\"n0\"") == 2; }));
    client.send(get("/network/diagnosis"));
    EXPECT_TRUE(
        run_until_received(client, "{\"findings\":[{\"message\":\"10.0.0.2 \xEF\xBF\xBD\"}]}")
    );
    EXPECT_EQ(server_->connections(), 1u); // B053: one connection for all.
    EXPECT_EQ(server_->counters().requests, 7u);
}

TEST_F(ServerTest, errors_have_openais_envelope) {
    auto& client = connect_and_send(get("/nothing"));
    EXPECT_TRUE(run_until_received(client, "HTTP/1.1 404 Not Found"));
    EXPECT_TRUE(run_until_received(client, R"({"error":{"message":"exo has no GET /nothing)"));
    client.send(post("/state", "{}"));
    EXPECT_TRUE(run_until_received(client, "HTTP/1.1 405 Method Not Allowed"));
    EXPECT_TRUE(client.has("\r\nAllow: GET, HEAD\r\n"));
    client.send(get("/v1/models/gpt-4o"));
    EXPECT_TRUE(run_until_received(client, R"("code":"model_not_found")"));
    client.send(get("/instance/none"));
    EXPECT_TRUE(run_until_received(client, "no instance 'none'"));
}

TEST_F(ServerTest, a_head_request_gets_the_header_only) {
    auto& client = connect_and_send("HEAD /health HTTP/1.1\r\nHost: exo\r\n\r\n" + get("/node_id"));
    EXPECT_TRUE(run_until_received(client, "\"n0\""));
    EXPECT_EQ(client.count("HTTP/1.1 200 OK"), 2u);
    EXPECT_FALSE(client.has("status"));
}

TEST_F(ServerTest, an_http_1_0_connection_is_closed_after_its_answer) {
    auto& client = connect_and_send("GET /node_id HTTP/1.0\r\n\r\n");
    EXPECT_TRUE(run_until([&] { return client.closed; }));
    EXPECT_TRUE(client.has("\"n0\""));
    EXPECT_TRUE(client.has("Connection: close"));
}

TEST_F(ServerTest, any_cut_of_a_request_gives_the_same_answer) {
    auto const request = post("/place_instance", R"({"model_id": "m", "min_nodes": 0})");
    for (std::size_t cut = 1; cut < request.size(); ++cut) {
        auto& client = connect_and_send(request.substr(0, cut));
        settle();
        client.send(request.substr(cut));
        ASSERT_TRUE(run_until_received(client, "min_nodes: an integer from 1")) << cut;
        drop_clients();
    }
    EXPECT_EQ(server_->counters().bad_requests, 0u);
}

TEST_F(ServerTest, requests_sent_ahead_are_answered_in_order) {
    auto& client = connect_and_send(
        get("/node_id") + post("/v1/chat/completions", "{") + get("/nothing") + get("/health")
    );
    EXPECT_TRUE(run_until_received(client, R"("status":"ok")"));
    auto const node = client.received.find("\"n0\"");
    auto const chat_error = client.received.find("HTTP/1.1 400");
    auto const not_found = client.received.find("HTTP/1.1 404");
    EXPECT_LT(node, chat_error);
    EXPECT_LT(chat_error, not_found);
    EXPECT_LT(not_found, client.received.find(R"("status":"ok")"));
}

TEST_F(ServerTest, a_chunked_body_and_one_that_waits_for_continue) {
    auto& client = connect_and_send(
        "POST /place_instance HTTP/1.1\r\nHost: exo\r\nTransfer-Encoding: chunked\r\n\r\n"
        "4\r\n{\"mo\r\n12\r\ndel_id\": \"m\"      \r\n1\r\n}\r\n0\r\n\r\n"
    );
    EXPECT_TRUE(run_until([&] { return backend_.placements.size() == 1; }));
    EXPECT_EQ(backend_.placements[0].first.model_id, "m");
    backend_.placements[0].second(Error(Errc::conflict, "no"));
    EXPECT_TRUE(run_until_received(client, "HTTP/1.1 409 Conflict"));

    client.send("POST /place_instance HTTP/1.1\r\nHost: exo\r\nContent-Length: 17\r\n"
                "Expect: 100-continue\r\n\r\n");
    EXPECT_TRUE(run_until_received(client, "HTTP/1.1 100 Continue\r\n\r\n"));
    client.send(R"({"model_id": "n"})");
    EXPECT_TRUE(run_until([&] { return backend_.placements.size() == 2; }));
    EXPECT_EQ(backend_.placements[1].first.model_id, "n");
}

TEST_F(ServerTest, a_placement_is_answered_with_its_ids_or_the_reason) {
    auto& client =
        connect_and_send(post("/place_instance", R"({"model_id": "demo", "min_nodes": 2})"));
    EXPECT_TRUE(run_until([&] { return backend_.placements.size() == 1; }));
    EXPECT_EQ(backend_.placements[0].first.min_nodes, 2u);
    Placed placed;
    placed.command_id = model::CommandId("c1");
    placed.instance_id = model::InstanceId("i1");
    backend_.placements[0].second(placed);
    EXPECT_TRUE(run_until_received(client, R"("instance_id":"i1")"));

    client.send(post("/place_instance", R"({"model_id": "demo"})"));
    EXPECT_TRUE(run_until([&] { return backend_.placements.size() == 2; }));
    backend_.placements[1].second(Error(Errc::conflict, "it needs 5.0 GiB, n0 has 1.0 GiB"));
    EXPECT_TRUE(run_until_received(client, "HTTP/1.1 409 Conflict"));
    EXPECT_TRUE(run_until_received(client, "it needs 5.0 GiB, n0 has 1.0 GiB"));

    client.send("DELETE /instance/i1 HTTP/1.1\r\nHost: exo\r\n\r\n");
    EXPECT_TRUE(run_until([&] { return backend_.deletions.size() == 1; }));
    EXPECT_EQ(backend_.deletions[0].first, model::InstanceId("i1"));
    backend_.deletions[0].second(Error(Errc::unavailable, "no master"));
    EXPECT_TRUE(run_until_received(client, "HTTP/1.1 503 Service Unavailable"));
}

TEST_F(ServerTest, an_answer_that_comes_after_its_client_left_is_dropped) {
    auto& client = connect_and_send(post("/place_instance", R"({"model_id": "demo"})"));
    EXPECT_TRUE(run_until([&] { return backend_.placements.size() == 1; }));
    client.hang_up();
    EXPECT_TRUE(run_until([&] { return server_->connections() == 0; }));
    backend_.placements[0].second(Error(Errc::conflict, "late"));
    settle();
}

TEST_F(ServerTest, a_header_over_the_limit_is_a_431) {
    auto& client = connect_and_send(get("/health", "X: " + std::string(40'000, 'x') + "\r\n"));
    EXPECT_TRUE(run_until_received(client, "HTTP/1.1 431 "));
    EXPECT_TRUE(run_until([&] { return client.closed; }));
}

TEST_F(ServerTest, a_body_over_the_limit_is_a_413_before_it_is_read) {
    options_.limits.body_bytes_max = 1000;
    auto& declared =
        connect_and_send("POST /place_instance HTTP/1.1\r\nHost: exo\r\nContent-Length: 1001\r\n"
                         "Expect: 100-continue\r\n\r\n");
    EXPECT_TRUE(run_until_received(declared, "HTTP/1.1 413 Payload Too Large"));
    EXPECT_FALSE(declared.has("100 Continue"));
    auto& chunked = connect_and_send(
        "POST /place_instance HTTP/1.1\r\nHost: exo\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3e9\r\n" +
        std::string(1001, 'x') + "\r\n0\r\n\r\n"
    );
    EXPECT_TRUE(run_until_received(chunked, "HTTP/1.1 413 Payload Too Large"));
}

TEST_F(ServerTest, what_is_no_http_is_a_400_and_closed) {
    for (std::string const junk :
         {"\x16\x03\x01\x02\x00\x01\x00 TLS\r\n\r\n",
          "GET\r\n\r\n",
          "GET / HTTP/9.9\r\n\r\n",
          "GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
          "GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
          "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
        auto& client = connect_and_send(junk);
        EXPECT_TRUE(run_until_received(client, "HTTP/1.1 400 Bad Request")) << junk;
        EXPECT_TRUE(run_until([&] { return client.closed; })) << junk;
    }
}

TEST_F(ServerTest, random_bytes_do_no_harm) {
    options_.limits.header_time = 20ms;
    options_.limits.idle_time = 20ms;
    Random random(415);
    for (int round = 0; round < 100; ++round) {
        std::string bytes = random.chance(1, 2) ? "" : "POST /v1/chat/completions HTTP/1.1\r\n";
        for (std::uint64_t i = random.below(2000); i > 0; --i) {
            bytes += static_cast<char>(random.next());
        }
        auto& client = connect_and_send(bytes);
        ASSERT_TRUE(run_until([&] { return client.closed; })) << round;
        drop_clients();
    }
    auto& client = connect_and_send(get("/health"));
    EXPECT_TRUE(run_until_received(client, "200 OK"));
    EXPECT_TRUE(backend_.scripts.empty());
}

TEST_F(ServerTest, a_request_that_does_not_arrive_in_time_is_a_408) {
    options_.limits.header_time = 30ms;
    options_.limits.body_time = 30ms;
    auto& header = connect_and_send("GET /health HTTP/1.1\r\nHost: e");
    EXPECT_TRUE(run_until_received(header, "HTTP/1.1 408 Request Timeout"));
    EXPECT_TRUE(run_until([&] { return header.closed; }));
    auto& body = connect_and_send("POST /place_instance HTTP/1.1\r\nContent-Length: 5\r\n\r\n12");
    EXPECT_TRUE(run_until_received(body, "HTTP/1.1 408 Request Timeout"));
    auto& silent = connect();
    EXPECT_TRUE(run_until([&] { return silent.closed; }));
    EXPECT_EQ(silent.received, "");
}

TEST_F(ServerTest, an_idle_connection_is_closed_in_silence) {
    options_.limits.idle_time = 30ms;
    auto& client = connect_and_send(get("/node_id"));
    EXPECT_TRUE(run_until([&] { return client.closed; }));
    EXPECT_TRUE(client.received.ends_with("\"n0\""));
}

TEST_F(ServerTest, B052_one_connection_too_many_is_told_so_and_the_others_go_on) {
    options_.limits.connections_max = 2;
    auto& first = connect_and_send(get("/health"));
    auto& second = connect_and_send(streamed_chat());
    EXPECT_TRUE(run_until_received(first, "200 OK"));
    EXPECT_TRUE(run_until_received(second, "200 OK"));
    auto& third = connect_and_send(get("/health"));
    EXPECT_TRUE(run_until_received(third, "HTTP/1.1 503 Service Unavailable"));
    EXPECT_TRUE(run_until([&] { return third.closed; }));
    EXPECT_EQ(server_->counters().refused_connections, 1u);
    first.send(get("/node_id"));
    EXPECT_TRUE(run_until_received(first, "\"n0\""));
    first.hang_up();
    EXPECT_TRUE(run_until([&] { return server_->connections() == 1; }));
    auto& fourth = connect_and_send(get("/health"));
    EXPECT_TRUE(run_until_received(fourth, "200 OK"));
}

TEST_F(ServerTest, a_port_in_use_is_an_error_that_says_what_to_do) {
    start();
    auto options = options_;
    options.port = server_->port();
    Server second(io_.get_executor(), backend_, options);
    auto const started = second.start();
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code(), Errc::io);
    auto const text = started.error().text();
    EXPECT_NE(text.find("127.0.0.1:" + std::to_string(options.port)), std::string::npos) << text;
    EXPECT_NE(text.find("--api-port"), std::string::npos) << text;
}

TEST_F(ServerTest, an_address_of_another_machine_is_an_error_that_says_what_to_do) {
    for (auto const& [host, says] :
         {std::pair{"192.0.2.1", "--api-host"}, std::pair{"no such host", "no such host or address"}
         }) {
        auto options = options_;
        options.host = host;
        Server server(io_.get_executor(), backend_, options);
        auto const started = server.start();
        ASSERT_FALSE(started);
        EXPECT_NE(started.error().text().find(says), std::string::npos) << started.error().text();
    }
}

TEST_F(ServerTest, the_url_is_one_that_a_browser_can_open) {
    options_.host = "0.0.0.0";
    start();
    EXPECT_EQ(server_->url(), "http://127.0.0.1:" + std::to_string(server_->port()));
}

TEST_F(ServerTest, B049_a_preflight_is_answered_for_allowed_origins) {
    auto const preflight = [](std::string const& origin) {
        return "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: exo\r\nOrigin: " + origin +
               "\r\nAccess-Control-Request-Method: POST\r\n"
               "Access-Control-Request-Headers: authorization,content-type,x-stainless-os\r\n\r\n";
    };
    auto& client = connect_and_send(preflight("http://localhost:3000"));
    EXPECT_TRUE(run_until_received(client, "HTTP/1.1 204 No Content"));
    EXPECT_TRUE(client.has("\r\nAccess-Control-Allow-Origin: http://localhost:3000\r\n"));
    EXPECT_TRUE(client.has("\r\nAccess-Control-Allow-Methods: GET, HEAD, POST, DELETE, OPTIONS\r\n")
    );
    EXPECT_TRUE(client.has(
        "\r\nAccess-Control-Allow-Headers: authorization,content-type,x-stainless-os\r\n"
    ));
    EXPECT_FALSE(client.has("Allow-Credentials"));
    auto& foreign = connect_and_send(preflight("https://evil.example"));
    EXPECT_TRUE(run_until_received(foreign, "HTTP/1.1 204 No Content"));
    EXPECT_FALSE(foreign.has("Access-Control"));
}

TEST_F(ServerTest, a_page_of_a_foreign_origin_can_neither_read_nor_change) {
    std::string const origin = "Origin: https://evil.example\r\n";
    auto& client = connect_and_send(post("/place_instance", R"({"model_id": "m"})", origin));
    EXPECT_TRUE(run_until_received(client, "HTTP/1.1 403 Forbidden"));
    EXPECT_TRUE(backend_.placements.empty());
    client.send(get("/state", origin));
    EXPECT_TRUE(run_until_received(client, "200 OK"));
    EXPECT_FALSE(client.has("Access-Control-Allow-Origin"));
    client.send(get("/node_id", "Origin: http://exo\r\n"));
    EXPECT_TRUE(run_until_received(client, "Access-Control-Allow-Origin: http://exo"));
}

TEST_F(ServerTest, stops_at_once_when_nothing_is_under_way) {
    auto& idle = connect_and_send(get("/node_id"));
    EXPECT_TRUE(run_until_received(idle, "\"n0\""));
    auto const port = server_->port();
    bool stopped = false;
    server_->stop([&] { stopped = true; });
    EXPECT_TRUE(run_until([&] { return stopped && idle.closed; }));
    EXPECT_EQ(server_->connections(), 0u);
    Tcp::socket late(io_);
    boost::system::error_code error;
    late.connect({asio::ip::address_v4::loopback(), port}, error);
    EXPECT_TRUE(error);
}

} // namespace
} // namespace exo::api::http::tests
