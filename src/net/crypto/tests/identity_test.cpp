// SPDX-License-Identifier: Apache-2.0
#include "base/entropy.hpp"
#include "net/crypto/file.hpp"
#include "net/crypto/identity.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>

namespace exo::net {
namespace {

Seed seed_of(std::uint8_t value) {
    Seed seed;
    seed.fill(value);
    return seed;
}

class IdentityFile : public testing::Test {
protected:
    IdentityFile()
        : folder_(std::filesystem::temp_directory_path() / ("exo-" + random_uuid())) {}

    ~IdentityFile() override {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }

    [[nodiscard]] std::filesystem::path file() const { return folder_ / "a" / "node_id.keypair"; }

    std::filesystem::path folder_;
};

// specs/libp2p.md 13.
TEST(Identity, of_a_seed_has_the_peer_id_of_rust) {
    EXPECT_EQ(
        Identity::from_seed(seed_of(1)).peer_id().text(),
        "12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5"
    );
    EXPECT_EQ(
        Identity::from_seed(seed_of(2)).peer_id().text(),
        "12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq"
    );
    EXPECT_EQ(
        Identity::from_seed(seed_of(3)).peer_id().text(),
        "12D3KooWRndVhVZPCiQwHBBBdg769GyrPUW13zxwqQyf9r3ANaba"
    );
}

TEST(Identity, two_new_ones_differ) {
    EXPECT_NE(Identity::generate().peer_id(), Identity::generate().peer_id());
}

// The signed gossipsub message of specs/libp2p.md 13 (Ed25519 signatures are deterministic).
TEST(Identity, signs_as_js_does) {
    auto const message =
        from_hex("6c69627032702d7075627375623a0a260024080112208a88e3dd7409f195fd52db"
                 "2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c120568656c6c6f1a08179"
                 "79cfe362a0001220a746573742d746f706963")
            .value();
    auto const signature = Identity::from_seed(seed_of(1)).sign(message);
    EXPECT_EQ(
        to_hex(signature),
        "122f63feba1a44b08051d365e82cf0ca89108a45515d43e8517f8b80bb1198d299e98dd8ede822f089069fa888"
        "f0"
        "2dd25c0d06093442dbdf6689b7df60355100"
    );
}

TEST(Identity, a_signature_holds_only_for_its_message_and_its_key) {
    auto const one = Identity::from_seed(seed_of(1));
    auto const two = Identity::from_seed(seed_of(2));
    auto const message = as_bytes("hello");
    auto signature = one.sign(message);
    EXPECT_TRUE(verify(one.public_key(), message, signature));
    EXPECT_FALSE(verify(two.public_key(), message, signature));
    EXPECT_FALSE(verify(one.public_key(), as_bytes("hellO"), signature));
    EXPECT_FALSE(verify(one.public_key(), message, BytesView(signature).first(63)));
    EXPECT_FALSE(verify(one.public_key(), message, {}));
    signature[10] ^= 1;
    EXPECT_FALSE(verify(one.public_key(), message, signature));
}

TEST_F(IdentityFile, is_made_once_and_then_kept) {
    auto const created = Identity::load_or_create(file());
    ASSERT_TRUE(created) << created.error().text();
    auto const loaded = Identity::load_or_create(file());
    ASSERT_TRUE(loaded) << loaded.error().text();
    EXPECT_EQ(created->peer_id(), loaded->peer_id());
    EXPECT_EQ(loaded->sign(as_bytes("x")), created->sign(as_bytes("x")));
}

TEST_F(IdentityFile, is_for_its_owner_only_and_leaves_nothing_beside_it) {
    ASSERT_TRUE(Identity::from_seed(seed_of(1)).save(file()));
    ASSERT_TRUE(Identity::from_seed(seed_of(2)).save(file())); // Replaces the first.
    struct stat status{};
    ASSERT_EQ(::stat(file().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    auto const entries = std::filesystem::directory_iterator(file().parent_path());
    EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
    EXPECT_EQ(Identity::load(file())->peer_id(), Identity::from_seed(seed_of(2)).peer_id());
}

TEST_F(IdentityFile, has_the_encoding_of_rust) {
    ASSERT_TRUE(Identity::from_seed(seed_of(1)).save(file()));
    EXPECT_EQ(
        to_hex(read_small_file(file(), 100).value()),
        "08011240" + to_hex(seed_of(1)) +
            "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"
    );
}

TEST_F(IdentityFile, a_damaged_one_is_refused_and_not_overwritten) {
    auto bytes = from_hex("08011240").value();
    append(bytes, seed_of(1));
    append(bytes, seed_of(9)); // No public key of that seed.
    for (auto const& damaged : {bytes, Bytes{}, Bytes(68, 0), Bytes(1000, 8)}) {
        ASSERT_TRUE(replace_private_file(file(), damaged));
        auto const loaded = Identity::load_or_create(file());
        ASSERT_FALSE(loaded);
        EXPECT_EQ(loaded.error().code(), Errc::corrupt);
        EXPECT_NE(loaded.error().text().find(file().string()), std::string::npos);
    }
    EXPECT_EQ(std::filesystem::file_size(file()), 1000u);
}

TEST_F(IdentityFile, a_missing_file_and_an_impossible_place_are_told_apart) {
    EXPECT_EQ(Identity::load(file()).error().code(), Errc::not_found);
    EXPECT_EQ(Identity::load_or_create("/proc/none/key").error().code(), Errc::io);
}

} // namespace
} // namespace exo::net
