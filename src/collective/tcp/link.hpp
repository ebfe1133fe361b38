// SPDX-License-Identifier: Apache-2.0
//
// The connection with one other rank once the group is formed: messages in, messages out. It makes
// no decision about waiting or sleeping; that is the group's (core.cpp).
//
// Two threads use it, the caller's and the group's I/O thread. Each direction has its own mutex,
// which its methods take themselves. The I/O thread never waits for one: a caller that moves large
// messages would keep it from the other ranks and from its beats. What it finds locked it leaves to
// the caller, and does not want to hear of it until the caller is done. An incoming message goes
// straight into the buffer that a call waits with (Inbound), or to the inbox, within
// inbox_bytes_max; then the socket is not read, and the sender's window fills.
#pragma once

#include "base/time.hpp"
#include "collective/tcp/connector.hpp"
#include "collective/tcp/watch.hpp"

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>

namespace exo::collective {

// What may lie in the outbox of one rank before a send waits. Some of the largest messages of a
// prefill (a pipeline's micro-batch of activations is 1 to 4 MB), so that computing and sending
// overlap.
constexpr std::size_t outbox_bytes_max = 8u << 20;
// The same for what has come and no call waits for yet.
constexpr std::size_t inbox_bytes_max = 8u << 20;

// A message that a call waits for. It must outlive its link's use of it: Link::withdraw().
struct Inbound {
    std::uint32_t from = 0;
    Operation operation = Operation::send;
    std::span<std::uint8_t> into; // Of exactly the message's size, or:
    bool any_size = false;        // `message` is filled.
    Bytes message;
    std::atomic<bool> done = false;
};

// A message that a call sends.
struct Outbound {
    std::uint32_t to = 0;
    Operation operation = Operation::send;
    BytesView bytes;
    std::size_t queued = 0;
    bool started = false;

    [[nodiscard]] bool done() const { return started && queued == bytes.size(); }
};

class Link {
public:
    explicit Link(Joined joined);

    [[nodiscard]] std::uint32_t peer() const { return peer_; }

    [[nodiscard]] std::string const& where() const { return where_; }

    [[nodiscard]] bool plain() const { return plain_; }

    [[nodiscard]] bool within_machine() const { return within_machine_; }

    [[nodiscard]] Socket const& socket() const { return socket_; }

    // "rank 1 at 10.0.0.2:4001"
    [[nodiscard]] std::string name() const;

    // ---- receiving

    // Takes the message from the inbox if it is there, else waits for it. One at a time.
    // Errors: protocol (another size or operation), cancelled (the rank has ended).
    [[nodiscard]] Result<void> post(Inbound& inbound);

    // The call is over, with an error: `inbound` is not touched any more, nor anything received.
    void withdraw();

    // Reads what has come. Errors are final for the group: unavailable (broken, or the rank says
    // that it failed), cancelled (it ended and a call waits for it), protocol.
    [[nodiscard]] Result<void> read(TimePoint now);

    // The I/O thread's read(): does nothing while the caller sleeps on this socket itself, or while
    // the inbox is full.
    [[nodiscard]] Result<void> read_in_background(TimePoint now);

    // Around the caller's sleep on the socket: it counts as readable from its first byte.
    void begin_sleep();
    void end_sleep();

    // After a call. While one waits here, the link is in direct mode: the I/O thread does not wait
    // for its bytes, for it would take a core from those who do. Large messages end the mode with
    // their call, because they are to come in while the caller computes. As long as messages are
    // small it stays, which saves up to four system calls for each.
    void settle();

    // The caller may be done with the socket: what is wanted of it may have changed.
    [[nodiscard]] bool take_reader_busy() { return reader_busy_.exchange(false); }

    // ---- for the I/O thread's sleep

    [[nodiscard]] Wanted wanted() const {
        return {.read = background_read_ && !reader_busy_, .write = queued_ > 0 && !writer_busy_};
    }

    [[nodiscard]] TimePoint last_heard() const { return TimePoint(Duration(last_heard_.load())); }

    // Beat intervals, up to now, in which nothing was heard. The I/O thread says when one is over.
    [[nodiscard]] std::uint32_t count_missing();

    // Since when the rank has ended in good order.
    [[nodiscard]] std::optional<TimePoint> ended() const;

    [[nodiscard]] Error ended_error() const;

    // ---- sending

    // What the caller does when the message is queued: it goes on computing, or it waits for the
    // other ranks anyway.
    enum class Patience { goes_on, waits_anyway };

    // Queues as much of the message as the window allows and sends what the socket takes.
    // Error: unavailable when the connection is broken; read() may know a better reason.
    [[nodiscard]] Result<void> write(Outbound& outbound, Patience patience);

    // The I/O thread's: sends what is queued, unless the caller is at it. Returns true when a
    // caller that found the window full can go on.
    [[nodiscard]] Result<bool> flush();

    // The I/O thread's: a sign of life, unless bytes are on their way anyway.
    [[nodiscard]] Result<void> beat();

    // The last record, with the reason.
    [[nodiscard]] Result<void> write_last(RecordKind kind, std::string_view text);

    [[nodiscard]] std::size_t queued() const { return queued_; }

    // From now on whatever comes is dropped; returns true at the end of the stream.
    [[nodiscard]] bool discard_until_end();

private:
    // The message that is coming in.
    struct Arriving {
        Operation operation = Operation::none;
        std::size_t total = 0;
        std::size_t filled = 0;
        std::optional<std::span<std::uint8_t>> into; // The inbound's buffer. Without it:
        Bytes bytes;

        // Where the next `count` bytes go.
        [[nodiscard]] std::span<std::uint8_t> next(std::size_t count);
    };

    struct Message {
        Operation operation = Operation::none;
        Bytes bytes;
    };

    void note_heard(TimePoint now);
    [[nodiscard]] bool inbox_full() const;
    void leave_direct();
    void publish_read_state();
    [[nodiscard]] Result<void> read_locked(TimePoint now);
    [[nodiscard]] Result<void> parse();
    [[nodiscard]] Result<void>
    on_record(RecordHeader const& header, BytesView header_bytes, BytesView body);
    [[nodiscard]] Result<void>
    on_data(RecordHeader const& header, BytesView header_bytes, BytesView body);
    [[nodiscard]] Result<void> start_message(RecordHeader const& header);
    [[nodiscard]] Result<void> begin_data(RecordHeader const& header);
    [[nodiscard]] Result<void> begin_plain(RecordHeader const& header, BytesView part);
    [[nodiscard]] std::span<std::uint8_t> plain_target();
    [[nodiscard]] std::size_t room_to_read() const;
    void note_filled(std::size_t count);
    void finish_message();
    [[nodiscard]] Result<void>
    check(Inbound const& inbound, Operation operation, std::size_t bytes) const;
    [[nodiscard]] Error malformed(std::string const& what) const;
    [[nodiscard]] Error unreadable(Error const& why) const;
    [[nodiscard]] Error broken(std::string const& how) const;
    [[nodiscard]] Result<void> write_locked(Outbound& outbound);
    [[nodiscard]] Result<void> send_plain(RecordHeader const& header, BytesView payload);
    [[nodiscard]] Result<void> flush_locked();

    [[nodiscard]] std::size_t queued_bytes() const { return outbox_.size() - sent_; }

    Socket socket_;
    std::uint32_t peer_;
    std::string where_;
    bool plain_;
    bool within_machine_;
    std::atomic<Duration::rep> last_heard_;
    std::atomic<bool> heard_ = true; // Since the last count_missing().
    std::uint32_t missing_ = 0;      // The I/O thread's.

    std::mutex read_mutex_;
    Opener opener_;
    Bytes buffer_; // Bytes [start_, end_) are received and not opened.
    std::size_t start_ = 0;
    std::size_t end_ = 0;
    std::optional<Arriving> arriving_;
    std::size_t plain_rest_ = 0; // What is still to come of a record that is not sealed.
    std::deque<Message> inbox_;
    std::size_t inbox_bytes_ = 0;
    Inbound* inbound_ = nullptr; // The call that waits, if its message has not begun in a buffer.
    bool asleep_ = false;        // The caller is, on this socket.
    bool direct_ = false;        // Only callers wait for bytes here.
    bool wakes_at_once_ = false; // The socket counts as readable from its first byte.
    bool expects_large_ = true;  // The last message was.
    bool withdrawn_ = false;
    std::atomic<Duration::rep> ended_at_ = 0;   // 0: it has not.
    std::atomic<bool> background_read_ = false; // The I/O thread is to wait for bytes.
    std::atomic<bool> reader_busy_ = false;     // It found the caller reading.

    std::mutex write_mutex_;
    Sealer sealer_;
    Bytes outbox_; // Bytes [sent_, size) are queued.
    std::size_t sent_ = 0;
    bool sender_waits_ = false;
    std::size_t window_ = outbox_bytes_max; // Of the caller's last write.
    std::atomic<std::size_t> queued_ = 0;
    std::atomic<bool> writer_busy_ = false; // The I/O thread found the caller writing.
};

} // namespace exo::collective
