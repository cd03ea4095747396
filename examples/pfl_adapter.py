"""A scheme inside pfl-research: its postprocessors have a client half and a server half, and so has a scheme.

    backend = SimulatedBackend(..., postprocessors=[AirPostprocessor(CommonK(), ratio=0.1)])

Statistics of pfl are sums of weight times update. A user sends weight times signal, these add up, and the
server turns the mean signal back into the mean update.
"""

import numpy as np
from pfl.metrics import Metrics
from pfl.postprocessor.base import Postprocessor
from pfl.stats import MappedVectorStatistics

import airfeel as af


class AirPostprocessor(Postprocessor):
    """Encode every user's update, with what it carries; recover the mean at the server."""

    def __init__(self, scheme, ratio, cohort=1, seed=0):
        self.scheme, self.ratio, self.cohort, self.seed = scheme, ratio, cohort, seed
        self.shapes, self.round, self.memories = None, 1, {}

    def postprocess_one_user(self, *, stats, user_context):
        if self.shapes is None:
            self.shapes = {name: np.shape(value) for name, value in stats.items()}
            symbols = max(1, round(self.ratio * af.size_of(self.shapes)))
            self.state = self.scheme.init(self.shapes, af.Setting(self.cohort, symbols))
            self.plan = self.scheme.plan(self.state, self.seed, self.round)
            self.fresh = {name: row[None] for name, row in self.scheme.memory(self.shapes).items()}
        update = np.concatenate([np.ravel(np.asarray(value)) for value in stats.values()]) / stats.weight
        memory, row = self.memories.get(user_context.user_id, self.fresh), update[None].astype(np.float32)
        sent = self.scheme.encode(self.plan, memory, row)
        self.memories[user_context.user_id] = self.scheme.settle(self.plan, memory, row, sent, np.ones(1))
        return MappedVectorStatistics({"signal": stats.weight * sent.signal[0]}, stats.weight), Metrics()

    def postprocess_server(self, *, stats, central_context, aggregate_metrics):
        heard = af.Heard(np.asarray(stats["signal"], dtype=np.float64) / stats.weight, 0.0)
        estimate, self.state = self.scheme.decode(self.state, self.plan, heard)
        self.round += 1
        self.plan = self.scheme.plan(self.state, self.seed, self.round)
        cuts = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])[:-1]
        parts = zip(self.shapes.items(), np.split(stats.weight * estimate.mean, cuts), strict=True)
        tensors = {name: part.reshape(shape).astype(np.float32) for (name, shape), part in parts}
        return MappedVectorStatistics(tensors, stats.weight), Metrics()
