"""Interfaces that this program serves: wires that are slow and lose packets, tunnels that lead
nowhere. (Not every kernel has netem and dummy interfaces; all have TUN and TAP.)"""
import contextlib
import heapq
import itertools
import os
import random
import selectors
import threading
import time


class Wire:
    """What happens to packets of a host on their way out, as tc-netem does it: they take `delay_s`,
    and of a hundred `loss_percent` are lost. What comes in is neither late nor lost."""

    def __init__(self, delay_s, loss_percent, seed):
        self.delay_s, self.loss_percent = delay_s, loss_percent
        self.random = random.Random(seed)
        self.lost, self.passed = 0, 0

    def loses(self):
        is_lost = self.random.random() * 100 < self.loss_percent
        self.lost, self.passed = self.lost + is_lost, self.passed + (not is_lost)
        return is_lost


class Pump(threading.Thread):
    """The thread that moves the packets."""

    def __init__(self):
        super().__init__(daemon=True, name="pump")
        self.selector = selectors.DefaultSelector()
        self.late = []  # A heap of (when, number, where, packet).
        self.numbers = itertools.count()
        wakened, self.wake = os.pipe2(os.O_NONBLOCK)
        self.selector.register(wakened, selectors.EVENT_READ, lambda packet: None)
        self.descriptors = [self.wake, wakened]
        self.is_stopped = False

    def drain(self, end):
        self.add(end, lambda packet: None)

    def connect(self, inside, outside, wire):
        def outward(packet):
            if not wire.loses():
                due = time.monotonic() + wire.delay_s
                heapq.heappush(self.late, (due, next(self.numbers), outside, packet))

        self.add(inside, outward)
        self.add(outside, lambda packet: put(inside, packet))

    def add(self, end, on_packet):
        self.selector.register(end, selectors.EVENT_READ, on_packet)
        if not self.is_alive():
            self.start()
        os.write(self.wake, b"+")

    def run(self):
        while not self.is_stopped:
            due = self.late[0][0] - time.monotonic() if self.late else None
            for key, _ in self.selector.select(due if due is None else max(due, 0)):
                with contextlib.suppress(OSError):  # The interface is down.
                    key.data(os.read(key.fd, 65536))
            while self.late and self.late[0][0] <= time.monotonic():
                _, _, where, packet = heapq.heappop(self.late)
                put(where, packet)

    def stop(self):
        self.is_stopped = True
        os.write(self.wake, b"-")
        if self.is_alive():
            self.join()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.selector.close()


def put(end, packet):
    with contextlib.suppress(OSError):  # The interface is down, or full: lost.
        os.write(end, packet)
