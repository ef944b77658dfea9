"""What a read brings about leaves when it ends, once for each connection that has something to send."""

from penstock.turn import Turn


class Sender:
    def __init__(self, turn, others=()):
        self.turn, self.others, self.sent = turn, others, 0

    def flush(self):
        self.sent += 1
        for other in self.others:
            self.turn.joined(other)


def test_all_that_joined_send_when_it_ends():
    turn = Turn()
    one, other = Sender(turn), Sender(turn)
    turn.begin()
    assert turn.joined(one)
    assert turn.joined(other)
    assert (one.sent, other.sent) == (0, 0)
    turn.end()
    assert (one.sent, other.sent) == (1, 1)
    turn.begin()
    turn.end()
    assert (one.sent, other.sent) == (1, 1)


def test_one_that_fails_keeps_no_other_waiting():
    turn = Turn()
    other = Sender(turn)
    turn.begin()
    turn.joined(None)  # has no flush
    turn.joined(other)
    turn.end()
    assert other.sent == 1


def test_outside_of_a_turn_nobody_joins():
    turn = Turn()
    assert not turn.joined(Sender(turn))
    turn.begin()
    turn.end()
    assert not turn.joined(Sender(turn))


def test_sending_is_outside_of_it():
    turn = Turn()
    late = Sender(turn)
    turn.begin()
    turn.joined(Sender(turn, [late]))
    turn.end()
    assert late.sent == 0
