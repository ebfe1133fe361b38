"""What is said by mDNS on a network of the laboratory, read by rules of our own: the parsers of the
program are what is tested."""
import contextlib
import socket
import struct
import threading


class Sniffer(threading.Thread):
    """Keeps the mDNS packets of a network, as (source address, port, IP TTL, packet)."""

    packets_max = 10_000

    def __init__(self, network):
        super().__init__(daemon=True, name="sniffer")
        with network.lab.switch.entered():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            self.socket.bind((network.name, 0))
        self.socket.settimeout(0.1)
        self.packets, self.is_stopped = [], False
        self.start()

    def run(self):
        while not self.is_stopped and len(self.packets) < self.packets_max:
            with contextlib.suppress(TimeoutError):
                packet = mdns_of(self.socket.recv(65536))
                if packet:
                    self.packets.append(packet)

    def stop(self):
        self.is_stopped = True
        self.join()
        self.socket.close()

    def questions_of(self, source):
        """How often this address has asked."""
        return sum(s == source and not packet[2] & 0x80 for s, _, _, packet in list(self.packets))

    def records(self):
        """Every record that was in an answer, as (source address, Record)."""
        return [
            (source, record)
            for source, _, _, packet in list(self.packets)
            for record in records_of(packet)
        ]


def mdns_of(frame):
    kind = struct.unpack_from("!H", frame, 12)[0]
    ip = frame[14:]
    if kind == 0x0800 and ip[9] == socket.IPPROTO_UDP:
        source, ttl = socket.inet_ntop(socket.AF_INET, ip[12:16]), ip[8]
        udp = ip[(ip[0] & 15) * 4 :]
    elif kind == 0x86DD and ip[6] == socket.IPPROTO_UDP:
        source, ttl, udp = socket.inet_ntop(socket.AF_INET6, ip[8:24]), ip[7], ip[40:]
    else:
        return None
    source_port, port, length = struct.unpack_from("!HHH", udp)
    return (source, source_port, ttl, udp[8:length]) if port == 5353 else None


class Record:
    """Of a DNS answer: its name, type and lifetime, and what it says as text."""

    def __init__(self, name, kind, ttl, data):
        self.name, self.kind, self.ttl, self.data = name, kind, ttl, data

    def __repr__(self):
        return f"{self.name} {self.kind} ttl {self.ttl}: {self.data}"


KINDS = {1: "A", 12: "PTR", 16: "TXT", 28: "AAAA", 33: "SRV", 47: "NSEC"}


def records_of(packet):
    _, flags, questions, *counts = struct.unpack_from("!6H", packet)
    at = 12
    for _ in range(questions):
        at = name_at(packet, at)[1] + 4
    found = []
    for _ in range(sum(counts) if flags & 0x8000 else 0):
        name, at = name_at(packet, at)
        kind, _, ttl, length = struct.unpack_from("!HHIH", packet, at)
        at += 10
        found.append(Record(name, KINDS.get(kind, kind), ttl, said(packet, kind, at, length)))
        at += length
    return found


def said(packet, kind, at, length):
    data = packet[at : at + length]
    if kind == 1:
        return socket.inet_ntop(socket.AF_INET, data)
    if kind == 28:
        return socket.inet_ntop(socket.AF_INET6, data)
    if kind == 12:
        return name_at(packet, at)[0]
    if kind == 33:
        return f"{name_at(packet, at + 6)[0]}:{struct.unpack_from('!H', data, 4)[0]}"
    if kind == 16:
        texts, place = [], 0
        while place < length:
            texts.append(data[place + 1 : place + 1 + data[place]].decode(errors="replace"))
            place += 1 + data[place]
        return texts
    return data


def name_at(packet, at):
    """A name, and where it ends."""
    labels, end = [], None
    for _ in range(128):  # Pointers in a circle end here.
        length = packet[at]
        if length >= 0xC0:
            end = end or at + 2
            at = struct.unpack_from("!H", packet, at)[0] & 0x3FFF
            continue
        at += 1
        if length == 0:
            break
        labels.append(packet[at : at + length].decode(errors="replace"))
        at += length
    return ".".join(labels), end or at
