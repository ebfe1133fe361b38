// SPDX-License-Identifier: Apache-2.0
//
// A server on loopback over a backend that does what the test says, and clients of bare sockets.
// All in one thread: a test sends, then runs the event loop until what it expects is there.
#pragma once

#include "api/http/server.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace exo::api::http::tests {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;

// What one call of generate() left behind.
struct Script {
    model::GenerationRequest request;
    std::function<void(model::GenerationEvent)> on_event;
    bool alive = true; // The Generation has not been destroyed.

    void token(std::string text) { on_event(model::TokenDelta{.text = std::move(text)}); }

    void finish() { on_event(model::GenerationFinished{}); }

    void fail(std::string code, std::string message) {
        on_event(model::GenerationFailed{.code = std::move(code), .message = std::move(message)});
    }
};

class ScriptedBackend : public Backend {
public:
    ScriptedBackend() {
        model::ModelCard chat;
        chat.model_id = model::ModelId("owner/demo");
        model::ModelCard embedder;
        embedder.model_id = model::ModelId("embedder");
        embedder.tasks = {"TextEmbedding"};
        cards = {chat, embedder};
    }

    [[nodiscard]] ClusterView view() const override {
        return {
            .node_id = model::NodeId("n0"),
            .master_node_id = model::NodeId("n0"),
            .state = &state,
            .observations = &observations
        };
    }

    [[nodiscard]] nlohmann::json network_diagnosis() const override { return diagnosis; }

    [[nodiscard]] std::vector<model::ModelCard> models() const override { return cards; }

    [[nodiscard]] Result<model::ModelCard> find_model(std::string const& id) const override {
        for (auto const& card : cards) {
            if (card.model_id.value() == id || card.model_id.value() == "owner/" + id) {
                return card;
            }
        }
        return Error(Errc::not_found, "no model '" + id + "'");
    }

    [[nodiscard]] model::InstanceSettings default_settings(std::string const&) const override {
        return settings;
    }

    void
    place_instance(PlaceRequest request, std::function<void(Result<Placed>)> on_answer) override {
        placements.push_back({std::move(request), std::move(on_answer)});
    }

    void
    delete_instance(model::InstanceId id, std::function<void(Result<Deleted>)> on_answer) override {
        deletions.push_back({std::move(id), std::move(on_answer)});
    }

    [[nodiscard]] std::unique_ptr<Generation> generate(
        model::GenerationRequest request, std::function<void(model::GenerationEvent)> on_event
    ) override {
        auto script = std::make_shared<Script>();
        script->request = std::move(request);
        script->on_event = std::move(on_event);
        scripts.push_back(script);
        return std::make_unique<Running>(script);
    }

    nlohmann::json diagnosis;
    std::vector<model::ModelCard> cards;
    model::InstanceSettings settings;
    model::State state;
    model::Observations observations;
    std::vector<std::pair<PlaceRequest, std::function<void(Result<Placed>)>>> placements;
    std::vector<std::pair<model::InstanceId, std::function<void(Result<Deleted>)>>> deletions;
    std::vector<std::shared_ptr<Script>> scripts;

private:
    class Running : public Generation {
    public:
        explicit Running(std::shared_ptr<Script> script)
            : script_(std::move(script)) {}

        ~Running() override { script_->alive = false; }

    private:
        std::shared_ptr<Script> script_;
    };
};

// Collects all that the server says. Held by its pending read too, which may outlive the test's
// interest in it.
class Client : public std::enable_shared_from_this<Client> {
public:
    Client(asio::io_context& io, std::uint16_t port)
        : socket_(io) {
        socket_.connect({asio::ip::address_v4::loopback(), port});
    }

    void read() {
        auto on_read = [self = shared_from_this()](auto error, std::size_t bytes_count) {
            self->received.append(self->buffer_.data(), bytes_count);
            self->closed = static_cast<bool>(error);
            if (!error && self->reads_) {
                self->read();
            }
        };
        socket_.async_read_some(asio::buffer(buffer_), std::move(on_read));
    }

    // Blocking: what tests send fits in the socket's buffer, or the server reads it anyway.
    void send(std::string const& text) {
        boost::system::error_code ignored; // The server may have closed: that is the test's point.
        asio::write(socket_, asio::buffer(text), ignored);
    }

    void hang_up() {
        boost::system::error_code ignored;
        socket_.close(ignored);
    }

    void stop_reading() { reads_ = false; }

    [[nodiscard]] bool has(std::string_view text) const {
        return received.find(text) != std::string::npos;
    }

    [[nodiscard]] std::size_t count(std::string_view text) const {
        std::size_t count = 0;
        for (auto at = received.find(text); at != std::string::npos;
             at = received.find(text, at + text.size())) {
            ++count;
        }
        return count;
    }

    std::string received;
    bool closed = false; // By the server.

private:
    Tcp::socket socket_;
    std::array<char, 16 * 1024> buffer_{};
    bool reads_ = true;
};

inline std::string get(std::string const& target, std::string const& headers = "") {
    return "GET " + target + " HTTP/1.1\r\nHost: exo\r\n" + headers + "\r\n";
}

inline std::string
post(std::string const& target, std::string const& body, std::string const& headers = "") {
    return "POST " + target +
           " HTTP/1.1\r\nHost: exo\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
           headers + "\r\n" + body;
}

// `more` begins with a comma.
inline std::string chat(std::string const& more = "", std::string const& model = "demo") {
    return post(
        "/v1/chat/completions",
        R"({"model": ")" + model + R"(", "messages": [{"role": "user", "content": "Hi"}])" + more +
            "}"
    );
}

inline std::string streamed_chat() {
    return chat(R"(, "stream": true)");
}

class ServerTest : public testing::Test {
protected:
    // Far more than any of this takes; a failure must not hang.
    static constexpr std::chrono::seconds patience{20};

    ServerTest() {
        options_.port = 0;
        options_.limits.head_time = std::chrono::milliseconds(1);
    }

    ~ServerTest() override {
        drop_clients();
        server_.reset();
        io_.restart();
        io_.run_for(patience); // Nothing may be left that keeps it running.
        EXPECT_TRUE(io_.stopped()) << "the server left something behind";
    }

    ServerTest(ServerTest const&) = delete;
    ServerTest& operator=(ServerTest const&) = delete;

    void start() {
        server_ = std::make_unique<Server>(io_.get_executor(), backend_, options_);
        auto const started = server_->start();
        ASSERT_TRUE(started) << started.error().text();
    }

    Client& connect() {
        if (!server_) {
            start();
        }
        clients_.push_back(std::make_shared<Client>(io_, server_->port()));
        clients_.back()->read();
        return *clients_.back();
    }

    Client& connect_and_send(std::string const& text) {
        auto& client = connect();
        client.send(text);
        return client;
    }

    void drop_clients() {
        for (auto const& client : clients_) {
            client->hang_up();
        }
        clients_.clear();
    }

    // True when `condition` became true.
    template <class Condition>
    bool run_until(Condition condition) {
        auto const deadline = std::chrono::steady_clock::now() + patience;
        while (!condition() && std::chrono::steady_clock::now() < deadline) {
            io_.restart();
            io_.run_one_for(std::chrono::milliseconds(100));
        }
        return condition();
    }

    bool run_until_received(Client& client, std::string_view text) {
        bool const ok = run_until([&] { return client.has(text); });
        EXPECT_TRUE(ok) << "expected: " << text << "\nreceived: " << client.received;
        return ok;
    }

    // Until the n-th call of generate(), which is returned.
    Script& script(std::size_t number = 0) {
        bool const ok = run_until([&] { return backend_.scripts.size() > number; });
        if (!ok) {
            ADD_FAILURE() << "no generation was started";
            std::abort();
        }
        return *backend_.scripts[number];
    }

    // Everything that can run without waiting has run.
    void settle() {
        io_.restart();
        while (io_.poll_one() > 0) {
        }
    }

    asio::io_context io_{1};
    ScriptedBackend backend_;
    Options options_;
    std::unique_ptr<Server> server_;
    std::vector<std::shared_ptr<Client>> clients_;
};

} // namespace exo::api::http::tests
