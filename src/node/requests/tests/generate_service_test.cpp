// SPDX-License-Identifier: Apache-2.0
#include "model/json.hpp"
#include "net/host/tests/host_fixture.hpp"
#include "node/json.hpp"
#include "node/requests/generate_service.hpp"

namespace exo::node {
namespace {

using model::GenerationEvent;
using model::TokenDelta;
using net::test::HostTest;
using net::test::options_of;

class GenerateServiceTest : public HostTest {
protected:
    GenerateServiceTest()
        : table_(hooks())
        , rank_0_(add(options_of(1)))
        , service_(rank_0_.host, table_, changed_)
        , api_(add(options_of(2))) {
        EXPECT_TRUE(rank_0_.host.start());
        EXPECT_TRUE(api_.host.start());
        connect(rank_0_, api_);
    }

    TaskTable::Hooks hooks() {
        TaskTable::Hooks hooks;
        hooks.start = [this](auto const&, auto const&) -> Result<void> { return start_result_; };
        hooks.cancel = [this](auto const&, auto const&) { ++cancelled_; };
        hooks.events_added = [this] { changed_.notify(); };
        hooks.levels_changed = [] {};
        return hooks;
    }

    static OpenTask request() {
        OpenTask open;
        open.instance_id = model::InstanceId("instance");
        open.request.task_id = task_;
        return open;
    }

    // A stream on which the request has been made.
    std::unique_ptr<net::Stream> open(OpenTask const& what) {
        auto opened = run(api_.host.open_stream(rank_0_.host.id(), generate_protocol));
        EXPECT_TRUE(opened);
        auto const bytes = model::to_msgpack(what);
        EXPECT_TRUE(run(net::write_message(**opened, bytes)));
        return std::move(*opened);
    }

    GenerationEvent next_event(net::Stream& stream) {
        auto const message = run(net::read_message(stream, event_bytes_max));
        EXPECT_TRUE(message);
        return model::from_msgpack<GenerationEvent>(*message).value();
    }

    void say(GenerationEvent event) { table_.on_event(task_, std::move(event), net::now()); }

    bool is_open() { return table_.events(task_) != nullptr; }

    static inline model::TaskId const task_{"task"};

    Result<void> start_result_;
    int cancelled_ = 0;
    Notify changed_;
    TaskTable table_;
    net::test::Node& rank_0_;
    GenerateService service_;
    net::test::Node& api_;
};

TEST_F(GenerateServiceTest, events_come_in_order_and_the_stream_ends_after_the_last) {
    auto const stream = open(request());
    ASSERT_TRUE(run_until([&] { return is_open(); }));
    say(TokenDelta{0, "Par", 1});
    say(TokenDelta{1, "is", 1});
    say(model::GenerationFinished{});
    EXPECT_EQ(next_event(*stream), GenerationEvent(TokenDelta{0, "Par", 1}));
    EXPECT_EQ(next_event(*stream), GenerationEvent(TokenDelta{1, "is", 1}));
    EXPECT_EQ(next_event(*stream), GenerationEvent(model::GenerationFinished{}));
    EXPECT_FALSE(run(net::read_message(*stream, event_bytes_max)));
    EXPECT_EQ(cancelled_, 0);
}

TEST_F(GenerateServiceTest, a_refusal_is_the_only_event) {
    start_result_ = Error(Errc::unavailable, "loading");
    auto const stream = open(request());
    EXPECT_EQ(
        next_event(*stream), GenerationEvent(model::GenerationFailed{"unavailable", "loading"})
    );
}

TEST_F(GenerateServiceTest, a_reset_stream_cancels_the_task_at_once) {
    auto const stream = open(request());
    ASSERT_TRUE(run_until([&] { return is_open(); }));
    stream->reset();
    EXPECT_TRUE(run_until([&] { return cancelled_ == 1; }));
}

TEST_F(GenerateServiceTest, a_lost_connection_cancels_nothing_and_the_answer_goes_on_later) {
    auto stream = open(request());
    ASSERT_TRUE(run_until([&] { return is_open(); }));
    say(TokenDelta{0, "Par", 1});
    EXPECT_EQ(next_event(*stream), GenerationEvent(TokenDelta{0, "Par", 1}));
    api_.host.disconnect(rank_0_.host.id());
    ASSERT_TRUE(run_until([&] { return !rank_0_.sees(api_); }));
    say(TokenDelta{1, "is", 1});
    EXPECT_EQ(cancelled_, 0);
    stream.reset();

    connect(rank_0_, api_);
    auto again = request();
    again.resume = true;
    again.next_number = 1;
    auto const resumed = open(again);
    EXPECT_EQ(next_event(*resumed), GenerationEvent(TokenDelta{1, "is", 1}));
}

TEST_F(GenerateServiceTest, random_bytes_as_a_request_do_no_harm) {
    auto const opened = run(api_.host.open_stream(rank_0_.host.id(), generate_protocol));
    ASSERT_TRUE(opened);
    Bytes const garbage{0xc1, 0xff, 0x00, 0x93};
    EXPECT_TRUE(run(net::write_message(**opened, garbage)));
    EXPECT_FALSE(run(net::read_message(**opened, event_bytes_max)));
    EXPECT_FALSE(is_open());
}

} // namespace
} // namespace exo::node
