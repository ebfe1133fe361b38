// SPDX-License-Identifier: Apache-2.0
//
// Every type of model/ that travels: complete descriptions, and no loss on the way there and back.
#include "fill.hpp"

#include <boost/pfr/core.hpp>
#include <gtest/gtest.h>

namespace exo::model {
namespace {

#ifdef __clang__
template <class T>
constexpr bool is_described_completely =
    boost::mp11::mp_size<codec::Members<T>>::value == boost::pfr::tuple_size_v<T>;
#else
// g++ 12 has an internal error in Boost.PFR's count of members; clang is there to check it.
template <class T>
constexpr bool is_described_completely = true;
#endif

template <class T>
class Document : public testing::Test {};

using Documents = testing::Types<
    Memory,
    ModelCard,
    PipelineShardMetadata,
    TensorShardMetadata,
    ShardMetadata,
    ShardAssignments,
    Host,
    MlxRingInstance,
    Instance,
    Wish,
    RunnerLoading,
    RunnerFailed,
    RunnerStatus,
    TextGeneration,
    Task,
    PlaceInstance,
    DeleteInstance,
    Command,
    NodeIdentity,
    NodeMemory,
    NodeDisk,
    NetworkInterface,
    NodeLink,
    NodeInfo,
    Session,
    Position,
    ReportId,
    NodeJoined,
    NodeSettled,
    WishRefused,
    InstanceDeleted,
    InstanceRestarted,
    RunnerStatusUpdated,
    TaskStatusUpdated>;
TYPED_TEST_SUITE(Document, Documents);

template <class T>
class LargeDocument : public testing::Test {};

using LargeDocuments = testing::Types<
    Event,
    ReportedRunner,
    Report,
    Member,
    LineageEntry,
    CommandOutcome,
    State,
    ChatMessage,
    Sampling,
    GenerationRequest,
    Usage,
    GenerationStats,
    PrefillProgress,
    TokenDelta,
    GenerationFinished,
    GenerationFailed,
    GenerationEvent>;
TYPED_TEST_SUITE(LargeDocument, LargeDocuments);

// Results print themselves with a stream operator that our types do not have: no ASSERT_EQ.
template <class T>
bool is(Result<T> const& result, T const& value) {
    return result && *result == value;
}

template <class T>
void check() {
    if constexpr (codec::DescribedStruct<T>) {
        static_assert(is_described_completely<T>, "a member is not described");
    }
    Random random(7);
    for (int i = 0; i < 20; ++i) {
        T value{};
        fill(value, random);
        auto const camel = to_json(value, Naming::camel);
        ASSERT_TRUE(is(from_json<T>(camel), value)) << to_text(camel);
        auto const snake = to_json(value, Naming::snake);
        ASSERT_TRUE(is(from_json<T>(snake), value)) << to_text(snake);
        ASSERT_TRUE(is(from_json<T>(parse_json(to_text(camel)).value()), value));
        ASSERT_TRUE(is(from_msgpack<T>(to_msgpack(value)), value)) << to_text(snake);
    }
}

TYPED_TEST(Document, comes_back_as_it_went) {
    check<TypeParam>();
}

TYPED_TEST(LargeDocument, comes_back_as_it_went) {
    check<TypeParam>();
}

// What a peer may do to a message: cut it, or change any byte. It is read or refused, no more.
TEST(Documents, damaged_messages_are_values_or_errors) {
    Random random(3);
    for (int round = 0; round < 10; ++round) {
        State state;
        fill(state, random);
        Bytes const whole = to_msgpack(state);
        for (int i = 0; i < 30; ++i) {
            Bytes damaged = whole;
            damaged[random.below(damaged.size())] = static_cast<std::uint8_t>(random.next());
            if (random.chance(1, 3)) {
                damaged.resize(random.below(damaged.size()));
            }
            if (auto const read = from_msgpack<State>(damaged)) {
                EXPECT_FALSE(to_text(to_json(*read, Naming::camel)).empty());
            } else {
                EXPECT_TRUE(is_utf8(read.error().text()));
            }
        }
    }
}

} // namespace
} // namespace exo::model
