/** The legend of a chart, in its card's head. */
import './chart.css';

export function Legend({ series }: { series: { label: string; colour: string; line?: boolean; dash?: boolean }[] }) {
  return (
    <span className="legend">
      {series.map((each) => (
        <span key={each.label}>
          <i data-line={each.line} data-dash={each.dash} style={{ color: `var(--${each.colour})` }} />
          {each.label}
        </span>
      ))}
    </span>
  );
}
