"""What every regressor does: read tables in native units, keep the box and the output scale, and turn posteriors into answers.

The numerics see inputs in the unit cube and outputs of mean 0 and spread 1. The box is the given `domain`, or the smallest one
around X; the output scale comes from y, or from `output_range` (see `Learned`). `partial_fit` moves the posterior on by some
observations; if X leaves a learned box, all is fitted again in the larger one.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import validate_data

from hyperleaf import doors
from hyperleaf.checks import whole_number
from hyperleaf.data import Standardizer
from hyperleaf.domain import Domain
from hyperleaf.errors import DataError, InputError, NotFittedYetError
from hyperleaf.estimators.tables import has_options, inside, pair_of, seed_of, to_unit, with_remedy
from hyperleaf.machine.threefry import seeded
from hyperleaf.mixture import Mixture
from hyperleaf.surrogates.base import Diagnostics, Posterior, Surrogate
from hyperleaf.surrogates.files import posterior_from_arrays, posterior_to_arrays
from hyperleaf.surrogates.kinds import KINDS
from hyperleaf.surrogates.learned import Learned
from hyperleaf.surrogates.named import make_surrogate
from hyperleaf.surrogates.noise import Kind, Noise, noise_figures, noise_of
from hyperleaf.surrogates.robust import Robust

COVARIANCES = 2**24  # entries of all draws' covariances held at a time


class NotFitted(NotFittedYetError, NotFittedError):
    """Asked of a regressor before `fit`; scikit-learn's error and hyperleaf's in one."""


class SurrogateRegressor(RegressorMixin, BaseEstimator):
    """The base of all regressors; a subclass names the `kind` of its surrogate, whose options are among its parameters."""

    kind: ClassVar[str]

    domain: Domain | None
    output_range: tuple[float, float] | None
    random_state: Any
    learned_: Learned

    def _surrogate(self, inputs: int | Sequence[int]) -> Surrogate:
        """What is believed before data, over the unit cube of so many dimensions, or of axes with these widths."""
        known = {"noise", *KINDS[self.kind].options}
        given = {name: value for name, value in self.get_params(deep=False).items() if name in known}
        return make_surrogate(self.kind, inputs, **given)

    # --- learning

    def fit(self, X: Any, y: ArrayLike, noise_variance: ArrayLike | None = None) -> Any:
        """Learn from X (n, d) and y (n,) in native units.

        `noise_variance` is the known variance of the noise of each observation, (n,) or one number, in units of y².
        """
        if self.domain is not None and not isinstance(self.domain, Domain):
            raise InputError(f"domain must be a Domain or None; got {type(self.domain).__name__}. Write Domain(x=Real(0, 1), …).")
        seed = seed_of(self.random_state)
        table, outputs = self._read(X, y, reset=True)
        noise = self._read_noise(noise_variance, len(outputs))
        self._start(table, outputs, noise, seed)
        return self

    def partial_fit(self, X: Any, y: ArrayLike, noise_variance: ArrayLike | None = None) -> Any:
        """Learn from one or several more observations, going on from where the posterior is; the first call is a `fit`.

        The result is a function of the observations, the calls they came in, and `random_state`. Should learning fail, the
        regressor stays as it was.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, noise_variance)
        table, outputs = self._read(X, y, reset=False)
        noise = self._read_noise(noise_variance, len(outputs))
        if (noise is None) != (self.learned_.noise is None):
            raise DataError("noise_variance must be given for all observations or for none; this call differs from fit.")
        before = self.learned_
        y_before, noise_before = before.told
        all_y = np.concatenate([y_before, outputs])
        if self._X is not None and not inside(self.domain_, table):
            all_noise = None if noise is None or noise_before is None else np.concatenate([noise_before, noise])
            note = "X left the box learned from the data; all was fitted again in a larger one. Give a domain to avoid this."
            self._start(np.concatenate([self._X, table]), all_y, all_noise, self._seed, note)
            warnings.warn(note, UserWarning, stacklevel=2)
            return self
        unit = self.domain_.to_unit(table)
        key = seeded(self._seed, len(all_y))
        self._settle(table, before.update(unit, outputs, noise, key=key))
        return self

    def _start(self, table: Any, y: Any, noise: Any, seed: int, note: str = "") -> None:
        """Fit from scratch."""
        if self.domain is None:
            if len(table) == 1:
                raise DataError("a box is learned from at least two rows of X; got n_samples=1. Give more rows, or a domain.")
            domain = Domain.from_data(table, list(getattr(self, "feature_names_in_", [])) or None)
        else:
            domain = self.domain
        scale = None if self.output_range is None else Standardizer.from_range(*pair_of("output_range", self.output_range))
        unit = domain.to_unit(table)
        key = seeded(seed, len(y))
        kind = Robust if getattr(self, "noise", "learned") == "robust" else Learned
        learned = kind.fit(self._surrogate(domain.widths), unit, y, noise, scale=scale, key=key)
        if note:
            learned = replace(learned, notes=(f"at {len(y)} observations {note}",))
        self.domain_, self._seed = domain, seed
        self._X = None
        self._settle(table, learned)

    def _settle(self, table: Any, learned: Learned) -> None:
        """Everything learned, set at once and last."""
        if self.domain is None:  # needed again only if the box grows
            self._X = table if self._X is None else np.concatenate([self._X, table])
        self.learned_ = learned

    # --- answers

    @property
    def posterior_(self) -> Posterior:
        """What is believed, over the unit cube and standardised outputs."""
        self._check_fitted()
        return self.learned_.posterior

    @property
    def standardizer_(self) -> Standardizer:
        """How outputs are standardised."""
        self._check_fitted()
        return self.learned_.scale

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, noisy: bool = False) -> Any:
        """The mean at X (m,), with `return_std` also the standard deviation (m,), with `return_cov` the covariance (m, m).

        They belong to the latent f, without the noise of observations; with `noisy=True` to new observations, with the learned
        noise added, and the known one if it was the same for all observations; noise that differs is not known elsewhere. Points
        outside the box are extrapolated.
        """
        if return_std and return_cov:
            raise InputError("at most one of return_std and return_cov may be asked for; got both. The diagonal of cov is std².")
        if return_cov:
            mean, covariance = self._joint_moments(self._unit(X), noisy)
            return self.standardizer_.inverse(mean), self.standardizer_.inverse_variance(covariance)
        mixture = self.predict_mixture(X, noisy)
        return (mixture.mean(), mixture.std()) if return_std else mixture.mean()

    def predict_mixture(self, X: Any, noisy: bool = False) -> Mixture:
        """The latent f at X, or with `noisy=True` a new observation, as a Gaussian mixture over the posterior draws."""
        unit = self._unit(X)
        mixture = self.learned_.predict(unit)
        return mixture.noisy() if noisy else mixture

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> NDArray[np.float64]:
        """Functions drawn from the posterior, at X: (m, n_samples). Each draws the parameters first, then the latent f."""
        unit = self._unit(X)
        num = whole_number("n_samples", n_samples)
        key = jax.random.key(seed_of(random_state))
        return self.standardizer_.inverse(self.posterior_.sample(unit, key, num)).T

    @property
    def diagnostics_(self) -> Diagnostics:
        """How far to trust the posterior: see `messages` first."""
        self._check_fitted()
        found = self.posterior_.diagnostics
        return replace(found, messages=(*self.learned_.remarks, *self._noise_of_y().messages, *found.sentences))

    def _noise_of_y(self) -> Noise:
        """What is known of the noise of y; variances that were given are known, whatever is learned on top."""
        kind: Kind = getattr(self, "noise", "learned") if self.learned_.noise is None else "known"
        found = noise_figures(self.posterior_).times(self.standardizer_.scale)
        return noise_of("y", "", kind, self.posterior_.data.x, self.learned_.y, found, tellable=hasattr(self, "noise"))

    @property
    def aside_(self) -> NDArray[np.intp]:
        """With noise="robust", the rows that were set aside, counted over all calls of `fit` and `partial_fit`."""
        self._check_fitted()
        return self.learned_.aside

    @property
    def log_evidence_(self) -> float:
        """ln p(y | X) in native units, as SMC estimates it; compare models that were fitted to the same data by it."""
        self._check_fitted()
        evidence = self.posterior_.evidence()
        if evidence is None:
            method = self.posterior_.diagnostics.method
            raise AttributeError(f'log_evidence_ comes with inference="smc" only; this regressor was fitted by {method}.')
        return evidence.log - len(self.learned_.y) * float(np.log(self.standardizer_.scale))

    def _joint_moments(self, unit: NDArray[np.float64], noisy: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and covariance over draws: within and between them; in blocks of columns to bound memory."""
        m = len(unit)
        block = int(np.clip(COVARIANCES // (m * _num_draws(self.posterior_)), 1, m))
        mean, covariance, noise = np.zeros(m), np.zeros((m, m)), np.zeros(())
        for start in range(0, m, block):
            columns = slice(start, start + block)
            joint = self.posterior_.joint(unit, unit[columns])
            mean = joint.weights @ joint.mean_x
            apart = joint.weights[:, None] * (joint.mean_x - mean)
            covariance[:, columns] = np.tensordot(joint.weights, joint.cov, 1) + apart.T @ (joint.mean_r - mean[columns])
            noise = np.tensordot(joint.weights, joint.noise, 1)  # (), or (m,) where the noise depends on x
        covariance = 0.5 * (covariance + covariance.T)
        return mean, covariance + np.diag(np.broadcast_to(noise, m)) if noisy else covariance

    # --- files

    def save(self, path: str | Path) -> Path:
        """Write what was learned to one file, without pickle."""
        from hyperleaf.estimators.files import save_regressor

        self._check_fitted()
        return save_regressor(path, self)

    export, sensitivity, optimum, level_set, propagate, derivatives = map(doors.method, doors.USES)

    @classmethod
    def load(cls, path: str | Path) -> Any:
        """The regressor that `save` wrote; it predicts and learns on exactly as the one that was saved."""
        from hyperleaf.estimators.files import load_regressor

        model = load_regressor(path)
        if not isinstance(model, cls):
            raise InputError(
                f"{str(path)!r} holds a {type(model).__name__}, not a {cls.__name__}. Call {type(model).__name__}.load."
            )
        return model

    # --- scikit-learn's protocol

    def __sklearn_is_fitted__(self) -> bool:
        return "learned_" in self.__dict__

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = has_options(self.domain)
        tags.input_tags.string = has_options(self.domain)
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """For pickle, as scikit-learn's helpers use it between processes. JAX would read double precision back as single."""
        state = dict(super().__getstate__())  # a copy: what follows must not touch the regressor
        if "learned_" in state:
            state["learned_"] = posterior_to_arrays(state["learned_"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "learned_" in state:
            state = state | {"learned_": posterior_from_arrays(*state["learned_"])}
        super().__setstate__(state)

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFitted(f"this {type(self).__name__} has seen no data. Call fit first.")

    def _read(self, X: Any, y: Any, reset: bool) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """X as an (n, axes) array in the order of the domain's axes, y as (n,): checked as scikit-learn does."""
        try:
            if has_options(self.domain):
                if y is None:
                    raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
                outputs = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"), warn=True)
                table = self._read_inputs(X, reset)
                check_consistent_length(table, outputs)
                return table, outputs
            X, y = validate_data(self, X, y, reset=reset, dtype=np.float64, y_numeric=True)
        except ValueError as error:
            raise error if isinstance(error, InputError) else DataError(with_remedy(error)) from error
        return self._ordered(X), np.asarray(y, dtype=np.float64)

    def _read_inputs(self, X: Any, reset: bool) -> NDArray[Any]:
        try:
            if has_options(self.domain):  # texts and numbers side by side: the domain checks them, value by value
                validate_data(self, X, reset=reset, skip_check_array=True)
                X = np.asarray(X, dtype=object)
                if X.ndim != 2:
                    raise ValueError(f"Expected 2D array, got {X.ndim}D array instead.")
            else:
                X = validate_data(self, X, reset=reset, dtype=np.float64)
        except ValueError as error:
            raise error if isinstance(error, InputError) else DataError(with_remedy(error)) from error
        return self._ordered(X)

    def _ordered(self, X: NDArray[Any]) -> NDArray[Any]:
        if self.domain is None:
            return X
        axes, names = list(self.domain.names), list(getattr(self, "feature_names_in_", self.domain.names))
        if X.shape[1] != len(axes) or sorted(names) != sorted(axes):
            raise InputError(f"X must have one column for each axis of the domain, {axes}; got {X.shape[1]} columns: {names}.")
        return X[:, [names.index(axis) for axis in axes]]

    def _read_noise(self, variance: Any, n: int) -> NDArray[np.float64] | None:
        if variance is None:
            if getattr(self, "noise", "learned") == "known":
                raise DataError('noise="known" needs the variances; got none. Pass noise_variance to fit, or noise="learned".')
            return None
        if getattr(self, "noise", "learned") == "none":
            raise DataError(
                'with noise="none" outputs repeat exactly and have no variances; got noise_variance. Leave it out, or pass '
                'noise="known".'
            )
        if not KINDS[self.kind].variances:
            raise InputError(f"{type(self).__name__} learns its noise and cannot use known variances. Leave out noise_variance.")
        try:
            array = np.broadcast_to(np.asarray(variance, dtype=np.float64), n).copy()
        except (TypeError, ValueError) as error:
            shape = np.shape(variance)
            raise DataError(f"noise_variance must be one number or one for each of the {n} rows; got shape {shape}.") from error
        if not np.isfinite(array).all() or (array < 0).any():
            bad = array[~(array >= 0) | ~np.isfinite(array)][0]
            raise DataError(f"noise_variance must be ≥ 0 and finite; got {bad:g}. Pass variances in units of y².")
        return array

    def _unit(self, X: Any) -> NDArray[np.float64]:
        """X in the unit cube, and beyond it along continuous axes."""
        self._check_fitted()
        return to_unit(self.domain_, self._read_inputs(X, reset=False))


def _num_draws(posterior: Posterior) -> int:
    return max(int(posterior.diagnostics.num_draws), 1)
