// SPDX-License-Identifier: Apache-2.0
#include "api/http/origin.hpp"
#include "api/http/route.hpp"
#include "api/http/wire.hpp"

#include <gtest/gtest.h>

#include <set>

namespace exo::api::http {
namespace {

using Parameters = std::vector<std::string>;

Handler handler_of(std::string_view method, std::string_view target) {
    auto const found = match(method, target);
    EXPECT_TRUE(found) << target << ": " << found.error().message;
    return found ? found->route->handler : Handler::health;
}

unsigned status_of(std::string_view method, std::string_view target) {
    auto const found = match(method, target);
    return found ? 200 : found.error().status;
}

TEST(Routes, each_path_has_its_handler) {
    EXPECT_EQ(handler_of("GET", "/health"), Handler::health);
    EXPECT_EQ(handler_of("HEAD", "/health"), Handler::health);
    EXPECT_EQ(handler_of("GET", "/health/"), Handler::health);
    EXPECT_EQ(handler_of("GET", "/health?verbose=1"), Handler::health);
    EXPECT_EQ(handler_of("GET", "http://localhost:52415/health"), Handler::health);
    EXPECT_EQ(handler_of("GET", "/network/diagnosis"), Handler::network_diagnosis);
    EXPECT_EQ(handler_of("GET", "/models"), Handler::models);
    EXPECT_EQ(handler_of("GET", "/v1/models"), Handler::models);
    EXPECT_EQ(handler_of("GET", "/v1/models/owner/repo"), Handler::model);
    EXPECT_EQ(handler_of("POST", "/v1/chat/completions"), Handler::chat_completions);
    EXPECT_EQ(handler_of("DELETE", "/instance/abc"), Handler::delete_instance);
    EXPECT_EQ(handler_of("GET", "/instance/abc"), Handler::get_instance);
}

TEST(Routes, parameters_are_decoded_segment_by_segment) {
    EXPECT_EQ(match("GET", "/instance/a%2Fb")->parameters, (Parameters{"a/b"}));
    EXPECT_EQ(
        match("GET", "/state/nodeMemory/n%201/0?x")->parameters,
        (Parameters{"nodeMemory", "n 1", "0"})
    );
    EXPECT_EQ(match("GET", "/v1/models/o/r%3aQ4")->parameters, (Parameters{"o", "r:Q4"}));
}

TEST(Routes, B004_an_unknown_path_is_a_404_that_names_the_known_ones) {
    auto const found = match("POST", "/v1/completions");
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().status, 404u);
    EXPECT_NE(found.error().message.find("POST /v1/chat/completions"), std::string::npos);
    for (auto const* target :
         {"", "/", "*", "/instance", "/instance/a/b", "//health", "/healthy"}) {
        EXPECT_EQ(status_of("GET", target), 404u) << target;
    }
}

TEST(Routes, a_wrong_method_is_a_405_with_those_allowed) {
    EXPECT_EQ(status_of("POST", "/state"), 405u);
    EXPECT_EQ(status_of("GET", "/place_instance"), 405u);
    EXPECT_EQ(allowed_methods("/instance/x"), "GET, HEAD, DELETE");
    EXPECT_EQ(allowed_methods("/nothing"), "");
}

TEST(Routes, a_bad_percent_encoding_is_refused) {
    for (auto const* target : {"/instance/%", "/instance/%4", "/instance/%zz", "/instance/%ff"}) {
        EXPECT_EQ(status_of("GET", target), 400u) << target;
    }
}

TEST(Routes, no_route_is_there_twice) {
    std::set<std::pair<std::string_view, std::string_view>> seen;
    for (auto const& route : routes()) {
        EXPECT_TRUE(seen.emplace(route.method, route.pattern).second) << route.pattern;
    }
}

bool allowed(std::string_view origin, std::vector<std::string> const& listed = {}) {
    return origin_allowed(origin, "192.168.1.5:52415", listed);
}

TEST(Origins, the_servers_own_loopback_and_listed_ones_are_allowed) {
    EXPECT_TRUE(allowed(""));
    EXPECT_TRUE(allowed("http://192.168.1.5:52415"));
    EXPECT_TRUE(allowed("https://192.168.1.5:52415")); // Behind a proxy that speaks TLS.
    EXPECT_TRUE(allowed("http://localhost"));
    EXPECT_TRUE(allowed("http://LocalHost:3000"));
    EXPECT_TRUE(allowed("http://127.0.0.1:8080"));
    EXPECT_TRUE(allowed("http://[::1]:8080"));
    EXPECT_TRUE(allowed("http://[::1]"));
    EXPECT_TRUE(allowed("https://chat.example", {"https://chat.example"}));
    EXPECT_TRUE(allowed("null", {"*"}));
}

TEST(Origins, all_others_are_not) {
    for (auto const* origin :
         {"null",
          "https://evil.example",
          "http://192.168.1.5",
          "http://192.168.1.5:80",
          "http://localhost.evil.example",
          "http://127.evil.example",
          "http://127.0.0.1.evil.example",
          "http://evil.example/localhost",
          "file://",
          "http://"}) {
        EXPECT_FALSE(allowed(origin)) << origin;
    }
    EXPECT_FALSE(allowed("https://chat.example.evil", {"https://chat.example"}));
}

TEST(Wire, an_answer_byte_for_byte) {
    Framing framing;
    EXPECT_EQ(
        answer_text({.status = 200, .body = "{}", .headers = {{"Allow", "GET"}}}, framing),
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
        "Cache-Control: no-store\r\nConnection: keep-alive\r\nVary: Origin\r\nAllow: GET\r\n\r\n{}"
    );
    framing = {.keep_alive = false, .head = true, .chunked = true, .origin = "http://localhost"};
    EXPECT_EQ(
        answer_text({.status = 404, .body = "{}", .headers = {}}, framing),
        "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\nVary: Origin\r\n"
        "Access-Control-Allow-Origin: http://localhost\r\n\r\n"
    );
    EXPECT_EQ(
        answer_text({.status = 204, .body = "", .headers = {}}, Framing{}),
        "HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\nVary: Origin\r\n\r\n"
    );
}

TEST(Wire, a_stream_is_chunked_for_http_1_1_only) {
    Framing const framing;
    EXPECT_NE(stream_head(framing).find("Transfer-Encoding: chunked\r\n"), std::string::npos);
    EXPECT_EQ(stream_chunk("data: abcdefghijk", framing), "11\r\ndata: abcdefghijk\r\n");
    EXPECT_EQ(stream_chunk("", framing), "");
    EXPECT_EQ(stream_end(framing), "0\r\n\r\n");
    Framing const old{.keep_alive = false, .head = false, .chunked = false, .origin = ""};
    EXPECT_EQ(stream_head(old).find("Transfer-Encoding"), std::string::npos);
    EXPECT_EQ(stream_chunk("data", old), "data");
    EXPECT_EQ(stream_end(old), "");
}

} // namespace
} // namespace exo::api::http
