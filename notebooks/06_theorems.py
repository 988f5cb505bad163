# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Every proposition as something that can fail
#
# **Claimed.** Tempered sigmoids bounds gradients and the bias of clipping by the temperature
# {cite}`papernot2021tempered`. Losing less bounds gradients and smoothness, and relies on rates of
# convergence {cite}`shamsabadi2023losing`. Backpropagation clipping proves sensitivities and adds
# them up {cite}`stevens2022backpropagation`. The tanh filter bounds a norm {cite}`amian2022tanh`.
#
# **Run here.** For each statement a search that could refute it: random cases, then uphill from the
# worst of them by the gradient of the violation, in double precision. The tests hold, for each
# statement, a version made false on purpose that the same search refutes.
#
# **Seen.** The table below is computed as the page is built, verdicts included.

# %% tags=["parameters"]
profile = "stored"  # or "smoke" or "full"

# %% tags=["remove-input"]
from dpstudy.chapters import propositions as chapter

chapter.check_profile(profile)

# %% [markdown]
# A search that finds nothing proves nothing; it only makes a mistake less likely. Where this
# chapter says that a statement holds, there is a proof as well, in the paper or in a few lines
# here. A counterexample is a proof by itself.
#
# Look at the column of verdicts. Where one says *corrected*, the statement fails as printed or as
# used, and what holds instead is in that statement's section.

# %%
chapter.statements_table()

# %% [markdown]
# The same verdicts to check against:

# %% tags=["nbval-check-output"]
print(chapter.verdicts_in_words())

# %% [markdown]
# ## 1. The family, and gradient norms under a temperature
#
# With $\varphi(x) = s / (1 + e^{-Tx}) - o$ (Eq. 3) the paper says that a smaller $s$ makes an
# activation smaller. It does if $o$ shrinks with it; with $o$ as it was, the member only moves
# down. And it says that in a limit the family can represent an approximation of relu on the inputs
# that occur. Where none is negative, it comes as near as one likes. Around 0 a bias is needed:
# $\varphi(x) + \varphi(-x)$ is the same for all $x$, while relu gives $|x|$, so that on $[-a, a]$
# no member alone is nearer to relu than $a/4$, which a straight line is. See in the table how near
# a bias brings it.
#
# The loss $\ell(\theta) = \ln(1 + e^{-T \langle z, \theta\rangle})$, the label being in the sign of
# $z$, is $\ln(1 / \phi)$ with the member $s = 1$, $o = 0$. For it,
#
# $$\lVert \nabla \ell \rVert_2 = |T|\,\lVert z \rVert_2\, \sigma(-T \langle z, \theta \rangle)
# \le |T|\,\lVert z \rVert_2 \qquad \text{(Eq. 4)}.$$
#
# For a point that is "grossly misclassified" σ is nearly 1, and the gradient grows with $T$ as if
# $T$ scaled $z$. Bounded activations bound $\lVert z \rVert$, and with it all gradients of the
# layer after them: a large enough $C$ clips none of these. In this sense version 1 of the paper may
# say that tempered sigmoids eliminate the negative effects of clipping. It does not follow for
# layers below, nor for the noise, which grows with $C$.
#
# The multiclass loss is printed without its minus sign, and so is its gradient, Eq. 5. As printed
# it has no minimum, and descent leads away from the right class. No norm depends on the sign.
#
# With $k$ classes the paper bounds each of $k$ blocks by the same and arrives at $\sqrt k$ (Eq. 5).
# But the blocks share one vector: $\nabla \ell = T\,(p - y) \otimes z$, and two distributions are
# never further apart than $\lVert p - y \rVert_2 \le \sqrt 2$. Eq. 5 would fall to a gradient
# longer than $\sqrt k\,|T|\,\lVert z\rVert$, and our version by one longer than
# $\sqrt 2\,|T|\,\lVert z\rVert$. See on which line the longest gradients found lie. On its way
# the paper bounds the gradient by $\sqrt k$ times one block, and does not say which. Of the longest
# that is true; the block of a class that has almost no probability is almost zero.

# %%
chapter.gradient_norms()

# %%
chapter.section_table(
    "tanh-is-tempered",
    "scale-and-magnitude",
    "relu-approximated",
    "loss-of-a-member",
    "gradient-norm-binary",
    "linear-in-temperature",
    "never-clipped",
    "multiclass-loss-sign",
    "gradient-norm-class",
    "gradient-norm-longest-class",
    "gradient-norm-multiclass",
    "gradient-norm-multiclass-sharp",
)

# %% [markdown]
# ## 2. The bias of clipped gradient descent
#
# Theorem 1: clipped gradient descent on tempered logistic regression with $\lVert z \rVert \le 1$
# ends, at convergence, with an excess loss of $O(\Delta)$ for
# $\Delta = \max(T - C, 0)\,\lVert\Theta\rVert$. The proof gives $2\Delta$. It compares the loss
# with the surrogate that clipping minimises, twice over all of $\Theta$, and says that the two are
# within $\Delta$ of each other there. They need not be, where $\Theta$ lies far from where clipping
# sets in; but moving the surrogate by a constant mends that, and moves no minimum. Nor does the
# theorem hold for every real $T$, as it is stated: a negative one clips as much as its positive
# twin, and $\Delta$ is 0. With $|T|$ for $T$ it does.
#
# A quarter of $2\Delta$ is enough. Walk from the best θ to where clipping ends. The surrogate
# falls all the way, so the clipped gradients that push on outweigh those that push back, and so at
# most $C/2$ is pushed back in all. A gradient that clipping leaves a length $c$ lost at most
# $c\,(T - C)/C$. The loss therefore rises by at most $(T - C)/2$ a unit of length, and the bias is
# at most $\Delta / 2$.
#
# Look at how far the dots, random problems, stay below both lines, and how close the stars come.

# %%
chapter.bias_against_bound()

# %%
chapter.section_table(
    "surrogate-gradient",
    "surrogate-distance",
    "clipping-bias",
    "clipping-bias-negative-temperature",
    "clipping-bias-sharp",
    "bias-falls-with-temperature",
)

# %% [markdown]
# The theorem "essentially shows", the paper goes on, that the bias goes down with the temperature,
# for any $C$. Its bound does. The bias itself can go up as $T$ goes down, since which gradients
# are clipped, and how hard, changes with $T$ as well. Look for a stretch on which the curve falls
# to the right.

# %%
chapter.bias_against_temperature()

# %% [markdown]
# The order of the bound is right and cannot be improved. But the worst case needs two camps of
# almost equal weight, one of them with much smaller features, all of it far from being classified
# rightly. Most random problems stay far below.
#
# ## 3. What clipped gradients are the gradient of
#
# The proof of Theorem 1 needs clipped gradients to be the gradient of something. A field $F$ is a
# gradient if and only if its Jacobian $J$ is symmetric, and if and only if
# $\oint F \cdot d\theta = 0$ around every loop. For the binary loss the surrogate can be written
# down: the loss, continued by its tangent where it is clipped, which the proof also needs to be
# differentiable and convex. For three classes the paper says, after Song and others, that no such
# objective need exist. One Jacobian with $J \ne J^\top$, or one loop, proves it. See where the two
# curves on the left end.

# %%
chapter.circulation()

# %%
chapter.section_table("clipped-field-binary", "surrogate-convex", "clipped-field-multiclass")

# %% [markdown]
# From this the paper concludes that with several classes "any formal quantification of the bias in
# terms of excess empirical risk is not possible". It is, and needs no objective. Let projected
# clipped descent come to rest at $\theta$ in a convex $\Theta$, let $g$ be the clipped gradient
# there and $G$ the loss' own. To rest means $\langle g, \theta - \theta' \rangle \le 0$ for every
# $\theta'$ in $\Theta$. The loss is convex, so it exceeds that at $\theta'$ by at most
#
# $$\langle G, \theta - \theta' \rangle \le \langle G - g, \theta - \theta' \rangle
# \le \max(\sqrt 2\,T - C, 0)\,\lVert\Theta\rVert ,$$
#
# since no gradient is longer than $\sqrt 2\,T$ for $\lVert z \rVert \le 1$, and clipping takes off
# what exceeds $C$. For two classes, where a gradient is no longer than $T$, the same three lines
# give Theorem 1 with half the constant of its proof. What is not proven is that descent always
# comes to rest. See how many of the random problems do, and how much room the bound leaves.

# %%
chapter.section_table("clipping-bias-multiclass")

# %% [markdown]
# So for a classifier with more than two classes "the objective that DP-SGD minimises" does not
# exist, and a learning rate that makes every step small does not change that.
#
# ## 4. The sub-sampled Gaussian mechanism
#
# One step of DP-SGD has the privacy loss of $P = (1 - q)\,\mathcal N(0, \sigma^2) +
# q\,\mathcal N(1, \sigma^2)$ against $Q = \mathcal N(0, \sigma^2)$, in either direction, and
#
# $$\delta(\varepsilon) = \mathbb E\bigl[(1 - e^{\varepsilon - L})_+\bigr], \qquad
# L = \textstyle\sum_t \log \frac{P}{Q}(x_t), \quad x_t \sim P .$$
#
# $L$ can be drawn, which uses none of the accountants' mathematics
# {cite}`abadi2016deep,mironov2019renyi,koskela2020computing`. An accountant falls to a case
# whose drawn δ, at its ε, is larger than the δ asked for. Look at how close PLD's curve is to the
# band, and at RDP's distance from it.

# %%
chapter.deltas()

# %%
chapter.section_table("pld-covers-delta", "rdp-covers-delta", "pld-below-rdp", "epsilon-monotone")

# %% [markdown]
# All of this is for batches that are Poisson-sampled. Batches cut from a shuffled data set have
# another privacy loss, between $\frac 1T \sum_t \mathcal N(2 e_t, \sigma^2 I)$ and $\frac 1T
# \sum_t \mathcal N(e_t, \sigma^2 I)$ for the gradients of {doc}`01_accounting` (but for examples
# left over), and that can be drawn as well {cite}`chua2024private`. See what δ becomes at the ε
# that the formula states. What does hold follows from revealing the permutation: then an epoch is
# one Gaussian that the example moves by 1.

# %%
chapter.section_table("shuffled-as-if-sampled")

# %% [markdown]
# And all of it is for one record. Tempered sigmoids adds that training which is ε-private for a
# record is $k\varepsilon$-private for a person with $k$ of them. From one dataset to the other
# there are $k$ steps, and for each
# $\Pr[A(D) \in S] \le e^{\varepsilon} \Pr[A(D') \in S] + \delta$. One after the other,
#
# $$\Pr[A(D) \in S] \le e^{k\varepsilon} \Pr[A(D') \in S] + \delta\,\bigl(1 + e^{\varepsilon} +
# \dots + e^{(k - 1)\varepsilon}\bigr) .$$
#
# With $\delta = 0$ that is what the paper says. Its results have $\delta > 0$, and for them δ grows
# with every record: see how soon a δ that looked negligible is not.

# %%
chapter.section_table("group-privacy-pure", "group-privacy")

# %% [markdown]
# ## 5. Losing less: gradients and smoothness
#
# Eq. 11 bounds the gradient $G = ((p - y) W \odot f'(h))^\top a$ of layer $M - 1$ by
# $\lVert p - y\rVert + \lVert W\rVert + \lVert a\rVert$. Norms of a product multiply:
#
# $$\lVert G \rVert_2 \le \lVert p - y\rVert_2\, \lVert W\rVert_2\, \lVert a\rVert_2
# \qquad (|f'| \le 1).$$
#
# Once two of the three are large, the sum is no bound. The paper's argument needs only that the
# bound falls with $\lVert W \rVert$ and $\lVert a \rVert$, which the product does as well. Eq. 3
# leaves out $f'$, and Eq. 7 a square.
#
# Lemma 1 says that $\lVert\nabla L(w) - \nabla L(w')\rVert \le \sigma_{\max} \lVert w - w'\rVert$
# if the Hessian's singular values are at most $\sigma_{\max}$ in a *simply connected* set. The
# proof walks along the line from $w$ to $w'$, which such a set need not contain. The counterexample
# is $L(x, y) = \max(x, 0)^3 \tanh(y / h)$ on a square without the strip $x > 0$, $|y| < 0.1$.
#
# The proof's Eq. 12 also integrates the Hessian at $w + t(w - w')$, $0 \le t \le 1$, which starts
# at $w$ and leads away from $w'$. The change of the gradient is the integral at $w' + t(w - w')$,
# along the line that the text after the equation names.

# %%
chapter.section_table(
    "backpropagation-equation",
    "sse-as-a-norm",
    "gradient-norm-sum",
    "smoothness",
    "change-of-gradient-integral",
)

# %% [markdown]
# ## 6. Backpropagation clipping
#
# **Accounting.** A mechanism is ρ-zCDP if its Rényi divergences are at most $\alpha\rho$
# {cite}`bun2016concentrated`. The paper converts this to ε (Proposition 1), takes it from the
# Gaussian (Proposition 2), adds it up over layers and epochs, and counts disjoint batches once
# (Theorem 1). The conversion is searched against the exact ε of a Gaussian {cite}`dong2022gaussian`
# and against dp-accounting; the sum against the divergence of all outputs together, integrated,
# where each mechanism may follow the output before it; for batches in parallel, the data and the
# neighbour are searched for which all batches' sums differ most.

# %%
chapter.section_table(
    "zcdp-conversion",
    "zcdp-gaussian",
    "zcdp-composition",
    "parallel-composition",
    "parallel-composition-replacing",
    "parallel-composition-cut",
    "privacy-of-the-run",
    "corrected-code-targets",
)

# %% [markdown]
# "Differ on a single element" is not enough said. Where an example is added or removed, disjoint
# batches cost what one does only if the others stay in theirs. Cut from a list, they move. Where an
# example is replaced, every ρ is four times as large. The last row is the authors' corrected code
# {cite}`stevens2022code`, and the chapter on accounting says why it misses its targets.
#
# **Sensitivity.** One example's input to a layer is clipped to norm $a$ and its upstream gradient
# to $b$. For a dense layer the gradient is $g x^\top$, whose norm is the product of the norms. For
# a convolution, and one output channel $o$, it is the input correlated with $g_o$. By Young's
# inequality
#
# $$\lVert x \star g_o \rVert_2 \le \lVert x \rVert_2\, \lVert g_o \rVert_1, \qquad
# \lVert \nabla_K \rVert_2 \le a \Bigl(\sum_o \lVert g_o \rVert_1^2\Bigr)^{1/2} \le ab .$$
#
# The text from which we work has lost the formulas of all its propositions and theorems. They are
# restored from the prose around them and from the norm in the published code. The paper limits its
# theorem to valid and wrap-around padding without bias. In the table below, compare zeros around
# the image with padding that copies pixels.

# %%
chapter.convolutions_table()

# %%
chapter.section_table(
    "layer-sensitivity",
    "layer-sensitivity-mean-loss",
    "dense-sensitivity",
    "dense-sensitivity-bias",
    "convolution-norm",
    "convolution-norm-channels",
    "convolution-sensitivity",
    "convolution-sensitivity-padding",
    "convolution-sensitivity-copying",
    "convolution-sensitivity-bias",
)

# %% [markdown]
# Zeros add nothing to the norm of the input, so the bound survives them: the paper gave up padding
# without need. Copied pixels do add to it. A bias is one more weight whose input is 1, and costs
# $b\sqrt{a^2 + 1}$ instead of $ab$. What the code gets wrong is elsewhere: its loss is a mean over
# the drawn batch, so one example fewer changes everyone's share.
#
# ## 7. The tanh filter
#
# Every entry of a gradient goes through tanh, which leaves a norm below $\sqrt n$. The paper proves
# that, and then accounts with 1. Its Eq. 4 prints a formula for tanh that is $\tanh(x/2)$. See on
# the left how the two differ, and on the right where the filtered norm stops growing.

# %%
chapter.tanh_filter()

# %%
chapter.section_table(
    "gaussian-mechanism-classical",
    "tanh-equation",
    "tanh-filter-root-n",
    "tanh-filter-sensitivity-one",
)

# %% [markdown]
# The bound $\sqrt n$ is attained in the limit, so nothing smaller can replace it. What can replace
# the filter is the filter followed by clipping: then 1 is true.
#
# ## 8. The curriculum's rates
#
# Losing less starts with SSE because it "converges exponentially […] to 0 loss", and cross-entropy
# only as $1/t$. On a linear model both can be measured. SSE shrinks in each eigendirection of the
# data's second moment by a constant factor, at worst $(1 - \lambda_{\min}/\lambda_{\max})^2$ a
# step. Each claim would fall to data with another rate. In the figure look for straight lines:
# SSE's on the left, where steps are linear, cross-entropy's on the right, where they are
# logarithmic.

# %%
chapter.convergence_rates()

# %%
chapter.section_table("sse-exponential", "sse-to-zero", "cross-entropy-rate")

# %% [markdown]
# The theory that the paper cites is for networks with more parameters than examples. The MNIST
# network has 26,010 parameters for 60,000 examples; without enough of them SSE falls exponentially
# to its minimum, which is not 0.
#
# ## What to take from it
#
# - $\lVert\nabla\ell\rVert \le \sqrt 2\,|T|\,\lVert z\rVert$ for any number of classes: choose
#   $C$ by that.
# - Theorem 1 is about two classes. With more, clipped gradients have no objective. And it bounds
#   the bias, no more: a lower temperature need not mean a smaller one.
# - A sensitivity must be stated with its neighbours: what may differ, who else moves when it does,
#   and by what the sum is divided. Divide by a constant.
# - Backpropagation clipping can be had with padding by zeros, and with a bias at $b\sqrt{a^2 + 1}$.
# - Clip after the tanh filter, or pay for $\sqrt n$.
#
# To search one statement again, or all of them:
#
# ```
# dpstudy theorems smoothness
# dpstudy theorems --json
# ```
