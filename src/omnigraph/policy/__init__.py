"""Authorization: who may do what, decided by rules that are compiled to Cedar."""

from omnigraph.policy.decision import Action as Action
from omnigraph.policy.decision import Actor as Actor
from omnigraph.policy.decision import Decision as Decision
from omnigraph.policy.decision import Question as Question
