// SPDX-License-Identifier: Apache-2.0
#include "storage/files/files.hpp"
#include "temporary_folder.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sys/stat.h>

namespace exo::storage {
namespace {

namespace fs = std::filesystem;
using tests::TemporaryFolder;

constexpr std::uint64_t plenty = 1u << 20;

TEST(Files, what_is_written_is_read_back_with_its_mode) {
    TemporaryFolder const folder;
    auto const path = folder.path() / "new" / "deeper" / "key";
    ASSERT_TRUE(atomic_write(path, as_bytes("secret"), 0600));
    EXPECT_EQ(as_text(*read_file(path, plenty)), "secret");
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777u, 0600u);
    ASSERT_EQ(::stat((folder.path() / "new").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777u, 0700u);
}

TEST(Files, a_write_replaces_the_whole_file_and_leaves_nothing_beside_it) {
    TemporaryFolder const folder;
    auto const path = folder.path() / "state";
    ASSERT_TRUE(atomic_write(path, as_bytes("a longer text")));
    ASSERT_TRUE(atomic_write(path, as_bytes("short"), 0644));
    EXPECT_EQ(as_text(*read_file(path, plenty)), "short");
    auto const entries = std::distance(fs::directory_iterator(folder.path()), {});
    EXPECT_EQ(entries, 1);
}

TEST(Files, a_write_that_fails_leaves_the_old_content) {
    TemporaryFolder const folder;
    auto const path = folder.path() / "taken";
    fs::create_directories(path / "not-empty");
    auto const written = atomic_write(path, as_bytes("x"));
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code(), Errc::io);
    EXPECT_NE(written.error().text().find(path.string()), std::string::npos);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(Files, a_file_in_the_way_of_a_folder_is_named) {
    TemporaryFolder const folder;
    ASSERT_TRUE(atomic_write(folder.path() / "file", as_bytes("x")));
    auto const made = make_folder(folder.path() / "file" / "below");
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), Errc::io);
    EXPECT_FALSE(make_folder(folder.path() / "file"));
    EXPECT_TRUE(make_folder(folder.path()));
}

TEST(Files, reading_says_what_is_wrong) {
    TemporaryFolder const folder;
    ASSERT_TRUE(atomic_write(folder.path() / "file", as_bytes("12345")));
    EXPECT_EQ(read_file(folder.path() / "none", plenty).error().code(), Errc::not_found);
    EXPECT_EQ(read_file(folder.path() / "file" / "x", plenty).error().code(), Errc::not_found);
    EXPECT_EQ(read_file(folder.path(), plenty).error().code(), Errc::io);
    EXPECT_EQ(read_file(folder.path() / "file", 4).error().code(), Errc::limit);
    EXPECT_EQ(read_file(folder.path() / "file", 5)->size(), 5u);
}

TEST(Files, a_pipe_in_place_of_a_file_does_not_hang_the_reader) {
    TemporaryFolder const folder;
    auto const pipe = folder.path() / "pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    EXPECT_EQ(read_file(pipe, plenty).error().code(), Errc::io);
}

mode_t mode_of(fs::path const& path) {
    struct stat status{};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return status.st_mode & 07777u;
}

TEST(Files, a_secret_that_others_could_read_is_closed_to_them_and_said_to_have_been_open) {
    TemporaryFolder const folder;
    auto const path = folder.path() / "secret";
    for (unsigned const mode : {0644u, 0640u, 0604u, 0620u, 0601u}) {
        ASSERT_TRUE(atomic_write(path, as_bytes("s"), mode));
        auto const secret = read_secret_file(path, plenty);
        ASSERT_TRUE(secret) << secret.error().text();
        EXPECT_TRUE(secret->was_open) << mode;
        EXPECT_EQ(as_text(secret->bytes), "s");
        EXPECT_EQ(mode_of(path), 0600u);
        EXPECT_FALSE(read_secret_file(path, plenty)->was_open);
    }
}

TEST(Files, a_secret_keeps_a_mode_that_is_stricter_still) {
    TemporaryFolder const folder;
    auto const path = folder.path() / "secret";
    ASSERT_TRUE(atomic_write(path, as_bytes("s"), 0400));
    EXPECT_FALSE(read_secret_file(path, plenty)->was_open);
    EXPECT_EQ(mode_of(path), 0400u);
}

TEST(Files, a_secret_that_cannot_be_read_says_so_as_any_file) {
    TemporaryFolder const folder;
    EXPECT_EQ(read_secret_file(folder.path() / "none", plenty).error().code(), Errc::not_found);
    ASSERT_TRUE(atomic_write(folder.path() / "long", as_bytes("12345")));
    EXPECT_EQ(read_secret_file(folder.path() / "long", 4).error().code(), Errc::limit);
}

TEST(Files, removing_tells_whether_there_was_a_file) {
    TemporaryFolder const folder;
    auto const path = folder.path() / "file";
    EXPECT_FALSE(remove_file(path).value());
    ASSERT_TRUE(atomic_write(path, as_bytes("x")));
    EXPECT_TRUE(remove_file(path).value());
    EXPECT_FALSE(fs::exists(path));
    EXPECT_EQ(remove_file(folder.path()).error().code(), Errc::io);
}

TEST(Files, ranges_end_at_the_end_of_the_file) {
    TemporaryFolder const folder;
    auto const path = folder.path() / "file";
    ASSERT_TRUE(atomic_write(path, as_bytes("0123456789")));
    EXPECT_EQ(as_text(*read_range(path, 2, 3)), "234");
    EXPECT_EQ(as_text(*read_range(path, 8, 100)), "89");
    EXPECT_TRUE(read_range(path, 10, 1)->empty());
    EXPECT_TRUE(read_range(path, ~std::uint64_t{0}, 1)->empty());
    EXPECT_EQ(read_range(folder.path() / "none", 0, 1).error().code(), Errc::not_found);
}

} // namespace
} // namespace exo::storage
