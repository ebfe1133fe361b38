// SPDX-License-Identifier: Apache-2.0
#include "engine/draft/make_drafter.hpp"

#include "engine/draft/draft_model.hpp"
#include "engine/draft/prompt_lookup.hpp"

namespace exo::engine {
namespace {

class LookupThenModel final : public Drafter {
public:
    explicit LookupThenModel(std::unique_ptr<Drafter> model)
        : model_(std::move(model)) {}

    [[nodiscard]] std::vector<std::int32_t>
    propose(std::uint32_t slot, std::span<std::int32_t const> tokens, std::uint32_t most) override {
        auto draft = lookup_.propose(slot, tokens, most);
        return draft.empty() ? model_->propose(slot, tokens, most) : draft;
    }

    void forget(std::uint32_t slot) override { model_->forget(slot); }

private:
    PromptLookup lookup_;
    std::unique_ptr<Drafter> model_;
};

} // namespace

Result<std::unique_ptr<Drafter>>
make_drafter(DrafterOptions const& options, llama_vocab const* target) {
    std::unique_ptr<Drafter> made;
    if (!options.draft_paths.empty()) {
        auto model = DraftModel::load(
            {.paths = options.draft_paths,
             .context_length = options.context_length,
             .threads = options.threads},
            target
        );
        if (!model) {
            return model.error();
        }
        made = std::move(*model);
    }
    if (options.settings.prompt_lookup) {
        if (made) {
            made = std::make_unique<LookupThenModel>(std::move(made));
        } else {
            made = std::make_unique<PromptLookup>();
        }
    }
    return made;
}

} // namespace exo::engine
