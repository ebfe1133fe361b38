// SPDX-License-Identifier: Apache-2.0
#include "storage/files/paths.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cstdlib>

namespace exo::storage {
namespace {

namespace fs = std::filesystem;

#ifdef __APPLE__
constexpr bool has_xdg = false;
#else
constexpr bool has_xdg = true;
#endif

std::optional<std::string> value_of(Environment const& environment, std::string const& name) {
    auto value = environment(name);
    return value && !value->empty() ? value : std::nullopt;
}

// A "~" that no shell has expanded, as in a service file.
fs::path expand(std::string const& text, fs::path const& home) {
    if (text == "~" || text.starts_with("~/")) {
        return home / fs::path(text.substr(std::min<std::size_t>(2, text.size())));
    }
    return text;
}

void add_list(
    Environment const& environment,
    std::string const& name,
    fs::path const& home,
    std::vector<fs::path>& folders
) {
    for (auto const& part : split(value_of(environment, name).value_or(""), ':')) {
        auto const folder = expand(part, home).lexically_normal();
        if (!part.empty() && std::find(folders.begin(), folders.end(), folder) == folders.end()) {
            folders.push_back(folder);
        }
    }
}

Paths below_one_folder(fs::path const& root) {
    Paths paths;
    paths.config = root / "config";
    paths.data = root / "data";
    paths.cache = root / "cache";
    paths.default_models = root / "models";
    return paths;
}

// XDG says that a relative path is not valid and must be ignored.
fs::path xdg(Environment const& environment, std::string const& name, fs::path const& otherwise) {
    auto const value = value_of(environment, name);
    bool const absolute = value && fs::path(*value).is_absolute();
    return (absolute ? fs::path(*value) : otherwise) / "exo";
}

Paths of_user(Environment const& environment, fs::path const& home) {
    if (!has_xdg) {
        return below_one_folder(home / ".exo");
    }
    Paths paths;
    paths.config = xdg(environment, "XDG_CONFIG_HOME", home / ".config");
    paths.data = xdg(environment, "XDG_DATA_HOME", home / ".local" / "share");
    paths.cache = xdg(environment, "XDG_CACHE_HOME", home / ".cache");
    paths.default_models = paths.data / "models";
    return paths;
}

} // namespace

std::vector<fs::path> Paths::all_models() const {
    auto all = models;
    all.insert(all.end(), models_read_only.begin(), models_read_only.end());
    return all;
}

Result<Paths> paths_from(Environment const& environment) {
    auto const exo_home = value_of(environment, "EXO_HOME");
    auto const home_text = value_of(environment, "HOME");
    fs::path const home = home_text.value_or("");
    Paths paths;
    if (exo_home) {
        auto const root = expand(*exo_home, home);
        if (root.is_relative() && !home_text) {
            return Error(
                Errc::invalid_argument,
                "EXO_HOME is '" + *exo_home +
                    "', which is below HOME, but HOME is not set: "
                    "give EXO_HOME as an absolute path"
            );
        }
        paths = below_one_folder((home / root).lexically_normal());
    } else if (home_text) {
        paths = of_user(environment, home);
    } else {
        return Error(
            Errc::invalid_argument,
            "neither EXO_HOME nor HOME is set: set EXO_HOME to the folder where exo may keep its "
            "files"
        );
    }
    if (auto const models = value_of(environment, "EXO_DEFAULT_MODELS_DIR")) {
        paths.default_models = expand(*models, home).lexically_normal();
    }
    paths.models = {paths.default_models};
    add_list(environment, "EXO_MODELS_DIRS", home, paths.models);
    add_list(environment, "EXO_MODELS_READ_ONLY_DIRS", home, paths.models_read_only);
    return paths;
}

Result<Paths> paths_of_process() {
    return paths_from([](std::string const& name) -> std::optional<std::string> {
        char const* const value = std::getenv(name.c_str());
        return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
    });
}

} // namespace exo::storage
