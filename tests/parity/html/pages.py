"""Pages of reports that are opened in a real browser, and how poor contrast is found there."""

from __future__ import annotations

from collections.abc import Callable

from cellbridge.parity.report.training_report import TrainingReport
from tests.parity.html.browser import Browser
from tests.parity.reports import cell, encoder, failing, passing, report

Opened = Callable[..., Browser]
"""Opens the page of a report, in a window of the options of `Browser.open`."""

LARGE = report(
    encoder(555),
    cell("", "Encoder", failing(feeding="end to end")),
    *(cell(f"layers.{i}.norm1", "LayerNorm", failing(ratio=10.0 ** (1 + i % 8))) for i in range(0, 555, 50)),
)
CONTRASTS = """
(() => {
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
  const shine = (color) => {
    const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = numbers(color).map(v => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const box = element.closest('.box')?.querySelector('rect');
    if (box && getComputedStyle(box).fill !== 'none') return getComputedStyle(box).fill;
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (numbers(color)[3] !== 0) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  const poor = [];
  for (const element of document.querySelectorAll('body *')) {
    const text = [...element.childNodes].filter(n => n.nodeType === 3 && n.data.trim()).map(n => n.data).join('');
    if (!text || !element.checkVisibility() || ['SCRIPT', 'STYLE'].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const front = element.namespaceURI.endsWith('svg') ? style.fill : style.color;
    const [a, b] = [shine(front), shine(behind(element))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    const place = element.className.baseVal ?? element.className;
    if (contrast < 4.5) poor.push(`${place} ${text.slice(0, 20)}: ${contrast.toFixed(2)}`);
  }
  return poor;
})()
"""


def training_report(steps: int = 6) -> TrainingReport:
    """A training of one side, in which a bias differs from step 3 on."""
    comparisons = [
        passing(side="cell", kind=kind, tensor=tensor, call=step, feeding="end to end", reference_value=1 / step)
        for step in range(1, steps + 1)
        for kind, tensor in (("loss", "loss"), ("gradient", "fc.weight"), ("parameter", "fc.weight"))
    ]
    comparisons += [
        failing(side="cell", kind="parameter", tensor="fc.bias", call=step, ratio=10.0**step)
        for step in range(3, steps + 1)
    ]
    return TrainingReport(
        "Net", ["cell"], "float32", steps, "adamw, lr 0.001", comparisons, explanations=["eps is larger"]
    )
