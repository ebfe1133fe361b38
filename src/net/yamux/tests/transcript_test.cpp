// SPDX-License-Identifier: Apache-2.0
//
// Golden bytes: frames and whole sessions recorded of rust, js and go (specs/libp2p.md 13), a
// transcript in every cut, and two sessions that talk over a connection that cuts at random.
#include "base/random.hpp"
#include "yamux_fixture.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <map>

namespace exo::net::yamux {
namespace {

struct HeaderRow {
    char const* name;
    char const* bytes;
    Header header;
};

class RecordedHeader : public testing::TestWithParam<HeaderRow> {};

TEST_P(RecordedHeader, parses_and_is_written_alike) {
    auto const bytes = hex(GetParam().bytes);
    auto const header = parse_header(bytes);
    ASSERT_TRUE(header);
    EXPECT_EQ(*header, GetParam().header);
    Bytes written;
    append_header(written, *header);
    EXPECT_EQ(written, bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Spec,
    RecordedHeader,
    testing::Values(
        HeaderRow{"ping", "00020001000000007d60f881", {FrameType::ping, flag::syn, 0, 0x7d60f881}},
        HeaderRow{"pong", "00020002000000007d60f881", {FrameType::ping, flag::ack, 0, 0x7d60f881}},
        HeaderRow{"open_rust", "000000010000000100000024", {FrameType::data, flag::syn, 1, 36}},
        HeaderRow{
            "open_js", "000100010000000100000000", {FrameType::window_update, flag::syn, 1, 0}
        },
        HeaderRow{"accept_rust", "000000020000000200000014", {FrameType::data, flag::ack, 2, 20}},
        HeaderRow{
            "accept_js", "000100020000000200000024", {FrameType::window_update, flag::ack, 2, 36}
        },
        HeaderRow{"fin_rust", "000000040000000200000000", {FrameType::data, flag::fin, 2, 0}},
        HeaderRow{
            "fin_js", "000100040000000100000000", {FrameType::window_update, flag::fin, 1, 0}
        },
        HeaderRow{"rst_rust", "000000080000000200000000", {FrameType::data, flag::rst, 2, 0}},
        HeaderRow{
            "rst_js", "000100080000000400000000", {FrameType::window_update, flag::rst, 4, 0}
        },
        HeaderRow{"go_away", "000300000000000000000000", {FrameType::go_away, 0, 0, 0}}
    ),
    [](auto const& row) { return row.param.name; }
);

TEST(YamuxHeader, another_version_or_type_is_refused) {
    EXPECT_EQ(parse_header(hex("010200010000000000000001")).error().code(), Errc::protocol);
    EXPECT_EQ(parse_header(hex("000400010000000000000001")).error().code(), Errc::protocol);
}

auto const transcript = hex("00 01 0001 00000001 00000000"            // SYN of stream 1
                            "00 00 0000 00000001 00000005 68656c6c6f" // "hello"
                            "00 02 0001 00000000 0000002a"            // ping 42
                            "00 02 0002 00000000 00000001"            // answer to our ping
                            "00 00 0005 00000003 00000002 6869"       // "hi" on 3: SYN and FIN
                            "00 00 0000 00000009 00000002 7878"       // an unknown stream
                            "00 01 0004 0000000b 00000000"            // FIN of an unknown one
                            "00 00 0004 00000001 00000001 21"         // "!" and FIN
                            "00 01 0009 0000000d 00000007"            // SYN and RST at once
                            "00 00 0001 0000000f 00000000"            // SYN of 15
                            "00 01 0008 0000000f 12345678"            // RST with a code, as go
                            "00 03 0000 00000000 00000000");          // go-away

TEST(YamuxSession, any_cut_of_the_bytes_gives_the_same_events_and_answers) {
    StreamId const one(1);
    StreamId const three(3);
    StreamId const fifteen(15);
    std::vector<Event> const expected{
        StreamOpened{one},
        DataReceived{one, hex("68656c6c6f")},
        StreamOpened{three},
        DataReceived{three, hex("6869")},
        StreamEnded{three, false},
        DataReceived{one, hex("21")},
        StreamEnded{one, false},
        StreamOpened{fifteen},
        StreamEnded{fifteen, true},
        GoAwayReceived{0},
    };
    auto const answers = hex("00 01 0002 00000001 00000000"
                             "00 02 0002 00000000 0000002a"
                             "00 01 0002 00000003 00000000"
                             "00 01 0002 0000000f 00000000");
    for (std::size_t size = 1; size <= transcript.size(); ++size) {
        auto session = quiet_session(Side::listener);
        std::vector<Event> events;
        for (std::size_t at = 0; at < transcript.size(); at += size) {
            auto const rest = BytesView(transcript).subspan(at);
            ASSERT_TRUE(session.receive(rest.first(std::min(size, rest.size())), start));
            for (auto& event : events_of(session)) {
                append_event(events, std::move(event));
            }
        }
        ASSERT_EQ(events, expected) << "pieces of " << size;
        ASSERT_EQ(session.take_output(), answers) << "pieces of " << size;
        ASSERT_EQ(session.stream_count(), 2U); // 1 and 3 still have our half.
    }
}

TEST(YamuxSession, a_cut_at_each_single_place_changes_nothing) {
    auto whole = quiet_session(Side::listener);
    ASSERT_TRUE(whole.receive(transcript, start));
    auto const expected = events_of(whole);
    auto const answers = whole.take_output();
    for (std::size_t cut = 0; cut <= transcript.size(); ++cut) {
        auto session = quiet_session(Side::listener);
        ASSERT_TRUE(session.receive(BytesView(transcript).first(cut), start));
        auto events = events_of(session);
        ASSERT_TRUE(session.receive(BytesView(transcript).subspan(cut), start));
        for (auto& event : events_of(session)) {
            append_event(events, std::move(event));
        }
        ASSERT_EQ(events, expected) << "cut at " << cut;
        ASSERT_EQ(session.take_output(), answers) << "cut at " << cut;
    }
}

// What one peer sent in a recorded session (testdata/libp2p/wire.json), and what it means.
struct Recorded {
    Side listening_as = Side::listener; // Who hears it.
    Bytes bytes;
    std::map<StreamId, Bytes> data;
    std::vector<std::uint32_t> pings; // The questions.
};

// The other side of the recorded connection was not us: answers to its pings and what belongs to
// the streams that it opened mean nothing to our session.
Recorded recorded(nlohmann::json const& frames, std::string const& direction) {
    Recorded result;
    for (auto const& one : frames) {
        if (one.at("dir") != direction) {
            continue;
        }
        auto const bytes = hex(one.at("hex").get<std::string>());
        auto const header = parse_header(BytesView(bytes).first(header_bytes)).value();
        if (header.type == FrameType::ping && header.has(flag::ack)) {
            continue;
        }
        if (header.type == FrameType::ping) {
            result.pings.push_back(header.length);
        }
        if (header.has(flag::syn) && header.stream != 0) {
            result.listening_as = header.stream % 2 == 1 ? Side::listener : Side::dialer;
            result.data[StreamId(header.stream)];
        }
        if (header.type == FrameType::data && result.data.contains(StreamId(header.stream))) {
            append(result.data[StreamId(header.stream)], BytesView(bytes).subspan(header_bytes));
        }
        append(result.bytes, bytes);
    }
    return result;
}

Bytes answers_of(Bytes const& output) {
    Bytes answers;
    for (std::size_t at = 0; at < output.size(); at += header_bytes) {
        auto const one = BytesView(output).subspan(at, header_bytes);
        if (parse_header(one).value().type == FrameType::ping) {
            append(answers, one);
        }
    }
    return answers;
}

void expect_understood(Recorded const& from, std::size_t size, std::string const& name) {
    auto session = quiet_session(from.listening_as);
    std::map<StreamId, Bytes> data;
    for (std::size_t at = 0; at < from.bytes.size(); at += size) {
        auto const rest = BytesView(from.bytes).subspan(at);
        ASSERT_TRUE(session.receive(rest.first(std::min(size, rest.size())), start)) << name;
        while (auto const event = session.next_event()) {
            if (auto const* opened = std::get_if<StreamOpened>(&*event)) {
                data[opened->stream];
            } else if (auto const* received = std::get_if<DataReceived>(&*event)) {
                append(data[received->stream], received->bytes);
                session.release(received->stream, received->bytes.size(), start);
            }
        }
    }
    EXPECT_EQ(data, from.data) << name << " in pieces of " << size;
    Bytes pongs;
    for (auto const value : from.pings) {
        append(pongs, frame(FrameType::ping, flag::ack, 0, value));
    }
    EXPECT_EQ(answers_of(session.take_output()), pongs) << name;
}

TEST(YamuxSession, recorded_sessions_of_rust_js_and_go_are_understood_in_any_cut) {
    std::ifstream file(EXO_SOURCE_DIR "/testdata/libp2p/wire.json");
    auto const sessions = nlohmann::json::parse(file).at("sessions");
    EXPECT_EQ(sessions.size(), 5U);
    for (auto const& [name, session] : sessions.items()) {
        if (name == "rust-hub-idontwant") {
            continue; // Frames of several connections.
        }
        for (auto const* const direction : {"in", "out"}) {
            auto const from = recorded(session.at("yamux_frames"), direction);
            EXPECT_FALSE(from.data.empty()) << name;
            for (std::size_t const size : {1UL, 7UL, 11UL, 12UL, 13UL, 100UL, from.bytes.size()}) {
                expect_understood(from, size, name + " " + direction);
            }
        }
    }
}

// One end of a connection as a driver would run it: sends its plan as windows allow, reads all.
struct End {
    Session session;
    std::map<StreamId, Bytes> to_send{};
    std::map<StreamId, Bytes> received{};
    std::map<StreamId, bool> ended{};

    void pump() {
        for (auto& [stream, bytes] : to_send) {
            auto const taken = session.send(stream, bytes);
            bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(taken));
            if (bytes.empty()) {
                session.close_write(stream);
            }
        }
        std::erase_if(to_send, [](auto const& entry) { return entry.second.empty(); });
    }

    void take_events() {
        while (auto event = session.next_event()) {
            if (auto* const data = std::get_if<DataReceived>(&*event)) {
                append(received[data->stream], data->bytes);
                session.release(data->stream, data->bytes.size(), start);
            } else if (auto* const end = std::get_if<StreamEnded>(&*event)) {
                EXPECT_FALSE(end->reset);
                ended[end->stream] = true;
            }
        }
    }
};

Bytes pattern(Random& random, std::size_t size) {
    Bytes bytes(size);
    std::ranges::generate(bytes, [&] { return static_cast<std::uint8_t>(random.next()); });
    return bytes;
}

void deliver(Random& random, Bytes& wire, End& to) {
    auto const size = std::min<std::size_t>(wire.size(), 1 + random.below(100'000));
    ASSERT_TRUE(to.session.receive(BytesView(wire).first(size), start));
    wire.erase(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(size));
    to.take_events();
    to.pump();
}

TEST(YamuxSession, two_sessions_carry_megabytes_on_many_streams_both_ways) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        Random random(seed);
        End a{Session(Side::dialer, start)};
        End b{Session(Side::listener, start)};
        std::map<StreamId, Bytes> plan_a;
        std::map<StreamId, Bytes> plan_b;
        for (int i = 0; i < 6; ++i) {
            plan_a[a.session.open_stream().value()] = pattern(random, random.below(1'000'000));
            plan_b[b.session.open_stream().value()] = pattern(random, random.below(600'000));
        }
        a.to_send = plan_a;
        b.to_send = plan_b;
        a.pump();
        b.pump();
        Bytes to_a;
        Bytes to_b;
        for (int step = 0; step < 20'000; ++step) {
            append(to_b, a.session.take_output());
            append(to_a, b.session.take_output());
            if (to_a.empty() && to_b.empty()) {
                break;
            }
            bool const first = to_a.empty() || (!to_b.empty() && random.chance(1, 2));
            ASSERT_NO_FATAL_FAILURE(deliver(random, first ? to_b : to_a, first ? b : a));
            a.take_events();
            b.take_events();
            a.pump();
            b.pump();
        }
        std::erase_if(plan_a, [](auto const& entry) { return entry.second.empty(); });
        std::erase_if(plan_b, [](auto const& entry) { return entry.second.empty(); });
        EXPECT_EQ(b.received, plan_a) << "seed " << seed;
        EXPECT_EQ(a.received, plan_b) << "seed " << seed;
        EXPECT_EQ(b.ended.size(), 6U);
        EXPECT_EQ(a.session.round_trip(), Duration::zero());
    }
}

} // namespace
} // namespace exo::net::yamux
