// SPDX-License-Identifier: Apache-2.0
#include "net/multistream/negotiation.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace exo::net::multistream {
namespace {

using Strings = std::vector<std::string>;

// Texts as they stand on the wire: specs/libp2p.md 4 gives the lengths.
Bytes wire(std::string_view text) {
    return Bytes(text.begin(), text.end());
}

std::string text(Bytes const& bytes) {
    return std::string(as_text(bytes));
}

constexpr std::string_view header = "\x13/multistream/1.0.0\n";
constexpr std::string_view noise = "\x07/noise\n";
constexpr std::string_view na = "\x03na\n";

std::string operator+(std::string_view a, std::string_view b) {
    return std::string(a).append(b);
}

// Feeds `bytes` in pieces of `size`; what comes behind the agreement goes to `rest`.
template <class Side>
Result<void> feed(Side& side, std::string_view all, std::size_t size, std::string& rest) {
    auto bytes = as_bytes(all);
    while (!bytes.empty()) {
        auto const piece = bytes.first(std::min(size, bytes.size()));
        bytes = bytes.subspan(piece.size());
        if (side.confirmed()) {
            rest += as_text(piece);
            continue;
        }
        EXO_TRY(side.receive(piece));
        if (side.confirmed()) {
            rest += text(side.take_rest());
        }
    }
    return {};
}

TEST(MultistreamDialer, sends_header_and_first_proposal_in_one_go) {
    Dialer dialer(Strings{"/noise"}, Mode::wait);
    EXPECT_EQ(text(dialer.take_output()), header + noise);
    EXPECT_TRUE(dialer.take_output().empty());
    EXPECT_FALSE(dialer.agreed());
}

TEST(MultistreamDialer, any_cut_of_the_answer_agrees_and_keeps_the_bytes_behind_it) {
    auto const answer = header + noise + "\x01 and noise";
    for (std::size_t size = 1; size <= answer.size(); ++size) {
        Dialer dialer(Strings{"/noise"}, Mode::wait);
        std::string rest;
        ASSERT_TRUE(feed(dialer, answer, size, rest));
        EXPECT_TRUE(dialer.confirmed());
        EXPECT_EQ(dialer.agreed(), "/noise");
        EXPECT_EQ(rest, answer.substr(28)) << "pieces of " << size;
    }
}

// go's header comes before it has heard anything; rust's comes in a frame of its own.
TEST(MultistreamDialer, a_header_alone_is_no_agreement) {
    Dialer dialer(Strings{"/noise"}, Mode::wait);
    ASSERT_TRUE(dialer.receive(wire(header)));
    EXPECT_FALSE(dialer.confirmed());
    EXPECT_FALSE(dialer.agreed());
    ASSERT_TRUE(dialer.receive(wire(noise)));
    EXPECT_TRUE(dialer.confirmed());
}

TEST(MultistreamDialer, a_lazy_one_agrees_at_once_and_checks_the_answer_later) {
    Dialer dialer(Strings{"/noise"}, Mode::lazy);
    EXPECT_EQ(dialer.agreed(), "/noise");
    EXPECT_FALSE(dialer.confirmed());
    ASSERT_TRUE(dialer.receive(wire(header + noise)));
    EXPECT_TRUE(dialer.confirmed());
}

TEST(MultistreamDialer, a_lazy_one_that_is_refused_fails) {
    Dialer dialer(Strings{"/noise"}, Mode::lazy);
    EXPECT_EQ(dialer.receive(wire(header + na)).error().code(), Errc::unsupported);
    EXPECT_FALSE(dialer.agreed());
}

TEST(MultistreamDialer, proposes_the_next_one_when_refused) {
    Dialer dialer(Strings{"/meshsub/1.2.0", "/meshsub/1.1.0"}, Mode::wait);
    EXPECT_EQ(text(dialer.take_output()), header + "\x0f/meshsub/1.2.0\n");
    ASSERT_TRUE(dialer.receive(wire(header + na)));
    EXPECT_EQ(text(dialer.take_output()), "\x0f/meshsub/1.1.0\n");
    ASSERT_TRUE(dialer.receive(wire("\x0f/meshsub/1.1.0\n")));
    EXPECT_EQ(dialer.agreed(), "/meshsub/1.1.0");
}

TEST(MultistreamDialer, fails_when_all_are_refused) {
    Dialer dialer(Strings{"/a", "/b"}, Mode::wait);
    ASSERT_TRUE(dialer.receive(wire(header + na)));
    auto const result = dialer.receive(wire(na));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::unsupported);
    EXPECT_EQ(result.error().text(), "the peer speaks none of /a, /b");
}

TEST(MultistreamDialer, another_answer_than_the_proposal_is_refused) {
    Dialer dialer(Strings{"/noise"}, Mode::wait);
    EXPECT_EQ(dialer.receive(wire(header + "\x05/tls\n")).error().code(), Errc::protocol);
}

TEST(MultistreamListener, any_cut_of_a_proposal_gives_the_same_answer_and_rest) {
    auto const request = header + "\x07/foo/1\n" + noise + "\x01 and noise";
    for (std::size_t size = 1; size <= request.size(); ++size) {
        Listener listener(Strings{"/tls", "/noise"});
        std::string rest;
        ASSERT_TRUE(feed(listener, request, size, rest));
        EXPECT_EQ(listener.agreed(), "/noise");
        EXPECT_EQ(text(listener.take_output()), header + na + noise) << "pieces of " << size;
        EXPECT_EQ(rest, request.substr(36)) << "pieces of " << size;
    }
}

// As recorded from rust and js.
TEST(MultistreamListener, lists_its_protocols) {
    Listener listener(Strings{"/noise"});
    ASSERT_TRUE(listener.receive(wire(header + "\x03ls\n")));
    EXPECT_EQ(text(listener.take_output()), header + "\x09\x07/noise\n\n");
    EXPECT_FALSE(listener.confirmed());
    ASSERT_TRUE(listener.receive(wire(noise)));
    EXPECT_TRUE(listener.confirmed());
}

TEST(MultistreamListener, refuses_without_end_only_so_often) {
    Listener listener(Strings{"/noise"});
    ASSERT_TRUE(listener.receive(wire(header)));
    for (std::size_t i = 0; i < proposals_max; ++i) {
        ASSERT_TRUE(listener.receive(wire("\x03/a\n")));
    }
    EXPECT_EQ(listener.receive(wire("\x03/a\n")).error().code(), Errc::limit);
}

// Each answer names all protocols, so asking counts as a proposal does.
TEST(MultistreamListener, lists_its_protocols_only_so_often) {
    Listener listener(Strings{"/noise"});
    ASSERT_TRUE(listener.receive(wire(header)));
    for (std::size_t i = 0; i < proposals_max; ++i) {
        ASSERT_TRUE(listener.receive(wire("\x03ls\n")));
    }
    EXPECT_EQ(listener.receive(wire("\x03ls\n")).error().code(), Errc::limit);
}

TEST(MultistreamListener, a_message_may_be_as_long_as_the_limit_and_no_longer) {
    std::string const longest(message_bytes_max - 2, 'a');
    Listener listener(Strings{"/noise"});
    ASSERT_TRUE(listener.receive(wire(header + "\x80\x08/" + longest + "\n")));
    EXPECT_EQ(text(listener.take_output()), header + na);
    // One more is refused at its length, before it comes.
    EXPECT_EQ(listener.receive(wire("\x81\x08")).error().code(), Errc::protocol);
}

// rust compares names byte by byte.
TEST(MultistreamListener, blanks_at_the_end_make_another_name) {
    Listener listener(Strings{"/noise"});
    ASSERT_TRUE(listener.receive(wire(header + "\x08/noise \n")));
    EXPECT_EQ(text(listener.take_output()), header + na);
    Listener other(Strings{"/noise"});
    EXPECT_FALSE(other.receive(wire("\x14/multistream/1.0.0 \n")));
}

// As rust, js and go: what a lazy dialer sends behind a refused proposal is no message.
TEST(MultistreamListener, data_behind_a_refused_proposal_is_an_error) {
    Listener listener(Strings{"/noise"});
    std::string const lazy_data("\x00\x20 key of a Noise message", 24);
    auto const result = listener.receive(wire(header + "\x07/foo/1\n" + lazy_data));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::protocol);
    EXPECT_EQ(text(listener.take_output()), header + na);
}

TEST(MultistreamListener, a_proposal_without_header_is_an_error) {
    Listener listener(Strings{"/noise"});
    EXPECT_EQ(listener.receive(wire(noise)).error().code(), Errc::protocol);
    EXPECT_TRUE(listener.take_output().empty());
}

TEST(MultistreamListener, garbage_is_an_error_of_both_sides) {
    for (std::string const& garbage :
         {std::string("\xff\xff\xff"),      // A length past the limit.
          std::string("\x80\x00", 2),       // A length in too many bytes.
          std::string("\x00", 1),           // Nothing, not even a newline.
          std::string("\x03/ab"),           // No newline.
          std::string("\x03\xff\xff\n")}) { // No text.
        Listener listener(Strings{"/noise"});
        EXPECT_EQ(listener.receive(wire(garbage)).error().code(), Errc::protocol);
        Dialer dialer(Strings{"/noise"}, Mode::wait);
        EXPECT_EQ(dialer.receive(wire(garbage)).error().code(), Errc::protocol);
    }
}

} // namespace
} // namespace exo::net::multistream
