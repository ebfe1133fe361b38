// SPDX-License-Identifier: Apache-2.0
//
// With a shell script in the place of `exo runner --probe`: it does what a probe should never do.
#include "model/gguf/tests/gguf_bytes.hpp"
#include "model/json.hpp"
#include "net/host/tests/host_fixture.hpp"
#include "node/json.hpp"
#include "node/probe/probe_service.hpp"
#include "storage/files/files.hpp"
#include "storage/files/tests/temporary_folder.hpp"

#include <csignal>
#include <fstream>

namespace exo::node {
namespace {

using model::Sharding;
using net::test::HostTest;
using net::test::options_of;

class ProbeTest : public HostTest {
protected:
    ProbeTest() {
        auto const bytes = model::gguf::tests::small_llama().bytes();
        EXPECT_TRUE(storage::atomic_write(folder_.path() / "models" / "m.gguf", bytes));
        paths_.default_models = folder_.path() / "models";
        paths_.models = {paths_.default_models};
    }

    // A program that notes its arguments and then does this.
    LocalProbeOptions program(std::string const& what) {
        auto const path = folder_.path() / "probe.sh";
        std::ofstream(path) << "#!/bin/sh\necho \"$*\" >> " << calls_path().string() << "\n"
                            << what << "\n";
        std::filesystem::permissions(path, std::filesystem::perms::owner_all);
        LocalProbeOptions options;
        options.executable = path;
        return options;
    }

    // Figures for as many ranks as are asked for.
    LocalProbeOptions honest_program() {
        return program(R"(
            ranks=$4; list=
            one='{"weight_bytes":100,"kv_bytes_per_token":1,"compute_bytes":2}'
            while [ $ranks -gt 0 ]; do
                list="$list${list:+,}$one"
                ranks=$((ranks - 1))
            done
            echo "{\"ok\":true,\"reason\":\"\",\"layer_bytes\":9,\"ranks\":[$list]}")");
    }

    [[nodiscard]] std::filesystem::path calls_path() const { return folder_.path() / "calls"; }

    [[nodiscard]] std::vector<std::string> calls() const {
        std::ifstream file(calls_path());
        std::vector<std::string> lines;
        for (std::string line; std::getline(file, line);) {
            lines.push_back(line);
        }
        return lines;
    }

    storage::LocalModel local() {
        Catalogue const catalogue(paths_);
        EXPECT_EQ(catalogue.models().size(), 1u);
        return catalogue.models().front();
    }

    Result<model::ModelCut> ask(LocalProbe& probe, Way way = {}) {
        return run(probe.ask(local(), way));
    }

    storage::tests::TemporaryFolder folder_;
    storage::Paths paths_;
};

TEST_F(ProbeTest, a_file_is_asked_about_once_in_each_way) {
    LocalProbe probe(honest_program());
    Way const tensor{.sharding = Sharding::tensor, .ranks = 3};
    for (int i = 0; i < 3; ++i) {
        auto const cut = ask(probe, tensor);
        ASSERT_TRUE(cut) << cut.error().text();
        EXPECT_EQ(cut->needs.size(), 3u);
        EXPECT_TRUE(ask(probe));
    }
    auto const path = (paths_.default_models / "m.gguf").string();
    EXPECT_EQ(
        calls(),
        (std::vector<std::string>{
            "runner --no-ranges --ranks 3 --sharding tensor --probe " + path,
            "runner --no-ranges --ranks 1 --sharding pipeline --probe " + path
        })
    );
}

TEST_F(ProbeTest, a_file_that_changed_is_asked_about_again) {
    LocalProbe probe(honest_program());
    EXPECT_TRUE(ask(probe));
    std::ofstream(paths_.default_models / "m.gguf", std::ios::app) << "more";
    EXPECT_TRUE(ask(probe));
    EXPECT_EQ(calls().size(), 2u);
}

TEST_F(ProbeTest, questions_at_once_have_one_child_at_a_time) {
    auto const options = program(
        "mkdir " + (folder_.path() / "busy").string() + R"( || exit 7
        sleep 0.05
        rmdir )" +
        (folder_.path() / "busy").string() + R"(
        echo '{"ok":false,"reason":"alone"}')"
    );
    LocalProbe probe(options);
    int ended = 0;
    auto question = [&](std::uint32_t ranks) -> asio::awaitable<void> {
        Way const way{.sharding = Sharding::tensor, .ranks = ranks};
        auto const model = local();
        auto const cut = co_await probe.ask(model, way);
        EXPECT_TRUE(cut && cut->refusal == "alone");
        ++ended;
    };
    for (std::uint32_t const ranks : {2u, 3u, 4u, 2u}) {
        asio::co_spawn(io_, question(ranks), [](std::exception_ptr thrown) {
            EXPECT_FALSE(thrown);
        });
    }
    EXPECT_TRUE(run_until([&] { return ended == 4; }));
    EXPECT_EQ(calls().size(), 3u); // The fourth knew by then.
}

TEST_F(ProbeTest, a_crash_is_a_refusal_and_is_remembered) {
    LocalProbe probe(program("kill -SEGV $$"));
    for (int i = 0; i < 2; ++i) {
        auto const cut = ask(probe);
        ASSERT_TRUE(cut) << cut.error().text();
        EXPECT_NE(cut->refusal.find("signal 11"), std::string::npos) << cut->refusal;
    }
    EXPECT_EQ(calls().size(), 1u);
}

TEST_F(ProbeTest, last_words_before_an_abort_are_the_reason) {
    LocalProbe probe(program(R"(echo '{"ok":false,"reason":"ggml aborted: odd"}'; kill -ABRT $$)"));
    auto const cut = ask(probe);
    ASSERT_TRUE(cut) << cut.error().text();
    EXPECT_EQ(cut->refusal, "ggml aborted: odd");
}

TEST_F(ProbeTest, one_that_hangs_is_ended_and_not_remembered) {
    auto options = program("echo $$ > " + (folder_.path() / "pid").string() + "; exec sleep 1000");
    options.limit = 300ms;
    LocalProbe probe(options);
    auto const cut = ask(probe);
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().code(), Errc::timed_out);
    int pid = 0;
    std::ifstream(folder_.path() / "pid") >> pid;
    EXPECT_TRUE(pid == 0 || kill(pid, 0) != 0) << "it is still there";
    EXPECT_FALSE(ask(probe));
    EXPECT_EQ(calls().size(), 2u);
}

TEST_F(ProbeTest, one_that_writes_without_end_is_ended) {
    LocalProbe probe(program("exec cat /dev/zero"));
    auto const cut = ask(probe);
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().code(), Errc::limit);
}

TEST_F(ProbeTest, one_that_cannot_be_started_is_an_error) {
    LocalProbeOptions options;
    options.executable = folder_.path() / "none";
    LocalProbe probe(options);
    EXPECT_EQ(ask(probe).error().code(), Errc::io);
}

// ---- over the network: an API node without the file, and a node that has it

class ProbeServiceTest : public ProbeTest {
protected:
    ProbeServiceTest()
        : api_(add(options_of(1)))
        , holder_(add(options_of(2))) {}

    void serve(LocalProbeOptions const& options) {
        asked_ = std::make_unique<ProbeService>(holder_.host, with_, options);
        asking_ = std::make_unique<ProbeService>(api_.host, without_, options);
        EXPECT_TRUE(api_.host.start());
        EXPECT_TRUE(holder_.host.start());
        connect(api_, holder_);
    }

    Result<model::ModelCard> judge(Sharding sharding, std::vector<model::NodeId> holders) {
        return run(asking_->judge(local().card, sharding, std::move(holders)));
    }

    [[nodiscard]] model::NodeId holder() const { return model::NodeId(holder_.host.id().text()); }

    net::test::Node& api_;
    net::test::Node& holder_;
    Catalogue with_{paths_};
    Catalogue without_{storage::Paths{}};
    std::unique_ptr<ProbeService> asked_;
    std::unique_ptr<ProbeService> asking_;
};

TEST_F(ProbeServiceTest, a_node_that_has_the_file_answers_for_one_that_has_not) {
    serve(honest_program());
    auto const card = judge(Sharding::tensor, {holder(), model::NodeId("unknown")});
    ASSERT_TRUE(card) << card.error().text();
    ASSERT_EQ(card->cuts.size(), 2u);
    EXPECT_EQ(card->cuts[0].ranks, 1u);
    EXPECT_EQ(card->cuts[1].sharding, Sharding::tensor);
    EXPECT_EQ(card->cuts[1].needs.size(), 2u);
    EXPECT_EQ(card->cuts[1].layer_bytes, 9u);
}

TEST_F(ProbeServiceTest, the_next_one_is_asked_when_one_cannot_answer) {
    serve(honest_program());
    auto const self = model::NodeId(api_.host.id().text()); // It has the file no more.
    auto const card = judge(Sharding::pipeline, {self, holder()});
    ASSERT_TRUE(card) << card.error().text();
    EXPECT_EQ(card->cuts.size(), 2u);
}

TEST_F(ProbeServiceTest, without_an_answer_a_pipeline_goes_on_and_a_tensor_placement_does_not) {
    auto options = program("exec sleep 1000");
    options.limit = 100ms;
    serve(options);
    auto const card = judge(Sharding::pipeline, {holder()});
    ASSERT_TRUE(card) << card.error().text();
    EXPECT_TRUE(card->cuts.empty());
    auto const refused = judge(Sharding::tensor, {holder()});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Errc::unavailable);
    EXPECT_NE(refused.error().text().find("did not end within"), std::string::npos)
        << refused.error().text();
}

TEST_F(ProbeServiceTest, garbage_on_its_stream_gets_no_answer) {
    serve(honest_program());
    auto opened = run(api_.host.open_stream(holder_.host.id(), probe_protocol));
    ASSERT_TRUE(opened);
    Bytes const garbage{0xc1, 0xff};
    ASSERT_TRUE(run(net::write_message(**opened, garbage)));
    EXPECT_FALSE(run(net::read_message(**opened, probe_answer_bytes_max)));
    EXPECT_TRUE(calls().empty());
}

TEST_F(ProbeServiceTest, ranks_beyond_reason_are_not_tried) {
    serve(honest_program());
    auto opened = run(api_.host.open_stream(holder_.host.id(), probe_protocol));
    ASSERT_TRUE(opened);
    ProbeModel question;
    question.model = local().card.model_id;
    question.ways = {{.sharding = Sharding::tensor, .ranks = 1'000'000}};
    auto const bytes = model::to_msgpack(question);
    ASSERT_TRUE(run(net::write_message(**opened, bytes)));
    EXPECT_FALSE(run(net::read_message(**opened, probe_answer_bytes_max)));
    EXPECT_TRUE(calls().empty());
}

} // namespace
} // namespace exo::node
