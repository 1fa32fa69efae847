"""The words that prompts are made of: each one token wherever it stands, and all of one length.

Equal lengths make a prompt one look-up in a table of bytes, so that text costs nanoseconds a token
and none of it need be kept. `PLAIN` holds for engines whose token is a word, and its words were
chosen because common vocabularies have each of them as one token, with a space before it and
without. A lexicon of one tokenizer is found by `tokenizer_fit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MOST_WORDS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """`cells` uint8[n, letters + 1]: a space and a word; `token_ids` int64[n]: its token there.

    n is a power of two. The first `starts` words, a power of two as well, are one token at the
    start of a prompt too, where no space stands before them.
    """

    cells: npt.NDArray[np.uint8]
    token_ids: npt.NDArray[np.int64]
    starts: int

    @property
    def words(self) -> tuple[str, ...]:
        """The words, without their spaces."""
        return tuple(row.tobytes().decode("ascii")[1:] for row in self.cells)


def make_lexicon(words: Sequence[str], token_ids: Sequence[int], starts: int) -> Lexicon:
    """Of ASCII words of one length, `starts` of which may open a prompt, these first.

    What is beyond a power of two is left out. Raises ValueError for words of several lengths.
    """
    opening = floor_power(min(starts, MOST_WORDS))
    count = floor_power(min(len(words), MOST_WORDS))
    if len({len(word) for word in words}) != 1 or not opening:
        raise ValueError("a lexicon needs words of one length, one of which can open a prompt")
    cells = np.frombuffer("".join(f" {word}" for word in words[:count]).encode("ascii"), np.uint8)
    ids = np.array(token_ids[:count], np.int64)
    return Lexicon(cells.reshape(count, -1), ids, min(opening, count))


def floor_power(count: int) -> int:
    """The largest power of two that is not above `count`; 0 for 0."""
    return 1 << count.bit_length() - 1 if count else 0


_COMMON = """
that with this from have will cont your more they part time over work when were also comp some
year comm like data into than just what need self only back form know cons name then make most
long look spec else char want read type hand pres stud find well list test help true used inst
even void case down very play high such show many good does stat pass here sign real call each
dist last null prov best made post mark line same file take fact text main open user view size
life must oper poss both next home cent book care conf prof free head week come rest team game
left path turn para mult serv keep mill cost expl less word full port hard prom fore body days
love cell page code base java four plan area term item vari able kind mean side done link room
away site date sent talk comb food init dest once prob appe hold land mass step requ conc camp
http face fund mind href city move load vers ever prop educ node role live sort larg miss stop
phys seen plus card walk util pack host cert five fall rate crit copy pick bool qual wait cred
half pers news task coll film circ fail idea echo fire tool draw decl anim foot door sing loss
prim cond send orig root late func font save hist fast girl diff args unit temp ways pred auto
held flow arch blog mode ball inde deep prot feed tree road note conv bank flex dark town join
priv ones dire fill stre wall info imag vert soft seek norm uses safe band skin json blue wide
gets uint lock star hour roll gold push nice rock wood desc club icon rule cast jour conn park
core tele drop menu pull este pair paid wind flag cart grad anti edge zero pool inte shot virt
spot resp chem fish rank math alle loop sets elif grid cout rent none exec exit rich weak edit
gain iter pret burn lang shop vent oder ship poll mask prev born perm fort guid chat aren onto
plot poly auth wire html hash flat vote rect ring dict gest byte ment wear mail endl impl tail
rise king esta keys mand axis bird rows zone slot mine iron west scan volt buff incl ends wave
seed beat bear tech rend disp spin verb sequ teen fold ride mock arms sole apps meta drag hall
hook deck prod bits boot dump hero hide lect pert hang span logo boys proc curr tags alla skip
gent boat aria disk mont tiny dess hole ster attr acts trim pare enum rose glob bind quel bone
pent grav eval clip maps elle ages pipe leaf bold bere arts pose bars mile beta inch plug fake
yard gate rice mesh amer lets coin lett wrap calc quer rand aver cher lean pace quot peer oral
hire chip nost tons cord gray medi rust tras cycl lung nick caps swap vest jack sync atom
"""

PLAIN = make_lexicon(_COMMON.split(), range(len(_COMMON.split())), len(_COMMON.split()))
"""512 words. Their token ids mean nothing to any engine but the built-in one."""
