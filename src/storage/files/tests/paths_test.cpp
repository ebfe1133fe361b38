// SPDX-License-Identifier: Apache-2.0
#include "storage/files/paths.hpp"

#include <gtest/gtest.h>

#include <map>

namespace exo::storage {
namespace {

namespace fs = std::filesystem;

Result<Paths> paths_with(std::map<std::string, std::string> const& variables) {
    return paths_from([&](std::string const& name) -> std::optional<std::string> {
        auto const found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
}

TEST(Paths, EXO_HOME_puts_everything_of_a_node_under_one_folder) {
    auto const paths = paths_with({{"HOME", "/home/u"}, {"EXO_HOME", "/srv/node1"}});
    ASSERT_TRUE(paths);
    EXPECT_EQ(paths->keypair(), "/srv/node1/config/node_id.keypair");
    EXPECT_EQ(paths->data, "/srv/node1/data");
    EXPECT_EQ(paths->log_file(), "/srv/node1/cache/exo_log/exo.log");
    EXPECT_EQ(paths->models, (std::vector<fs::path>{"/srv/node1/models"}));
    EXPECT_TRUE(paths->models_read_only.empty());
}

TEST(Paths, a_relative_EXO_HOME_is_below_HOME) {
    EXPECT_EQ(paths_with({{"HOME", "/home/u"}, {"EXO_HOME", "x"}})->config, "/home/u/x/config");
    EXPECT_EQ(paths_with({{"HOME", "/home/u"}, {"EXO_HOME", "~/x"}})->config, "/home/u/x/config");
    auto const homeless = paths_with({{"EXO_HOME", "x"}});
    ASSERT_FALSE(homeless);
    EXPECT_EQ(homeless.error().code(), Errc::invalid_argument);
    EXPECT_TRUE(paths_with({{"EXO_HOME", "/x"}}));
}

TEST(Paths, without_any_home_the_error_says_what_to_set) {
    auto const paths = paths_with({{"EXO_HOME", ""}});
    ASSERT_FALSE(paths);
    EXPECT_NE(paths.error().text().find("set EXO_HOME"), std::string::npos);
}

#ifndef __APPLE__
TEST(Paths, the_users_folders_are_those_of_XDG) {
    auto const paths = paths_with({{"HOME", "/home/u"}});
    ASSERT_TRUE(paths);
    EXPECT_EQ(paths->config, "/home/u/.config/exo");
    EXPECT_EQ(paths->data, "/home/u/.local/share/exo");
    EXPECT_EQ(paths->cache, "/home/u/.cache/exo");
    EXPECT_EQ(paths->default_models, "/home/u/.local/share/exo/models");
    auto const moved =
        paths_with({{"HOME", "/home/u"}, {"XDG_DATA_HOME", "/data"}, {"XDG_CACHE_HOME", "relative"}}
        );
    EXPECT_EQ(moved->default_models, "/data/exo/models");
    EXPECT_EQ(moved->cache, "/home/u/.cache/exo"); // XDG: a relative path is not valid.
}
#endif

TEST(Paths, model_folders_are_searched_in_the_order_given) {
    auto const paths = paths_with(
        {{"EXO_HOME", "/n"},
         {"HOME", "/home/u"},
         {"EXO_DEFAULT_MODELS_DIR", "/big/models/"},
         {"EXO_MODELS_DIRS", "/a::~/b:/a:/big/models/"},
         {"EXO_MODELS_READ_ONLY_DIRS", "/shared"}}
    );
    ASSERT_TRUE(paths);
    EXPECT_EQ(paths->default_models, "/big/models/");
    EXPECT_EQ(paths->models, (std::vector<fs::path>{"/big/models/", "/a", "/home/u/b"}));
    EXPECT_EQ(
        paths->all_models(), (std::vector<fs::path>{"/big/models/", "/a", "/home/u/b", "/shared"})
    );
}

TEST(Paths, of_this_process_exist_wherever_there_is_a_home) {
    if (std::getenv("HOME") == nullptr && std::getenv("EXO_HOME") == nullptr) {
        GTEST_SKIP() << "neither HOME nor EXO_HOME is set here";
    }
    EXPECT_TRUE(paths_of_process());
}

} // namespace
} // namespace exo::storage
