/** Placeholders while data is loading. */
export function SkeletonRows({ rows = 6 }: { rows?: number }) {
  return (
    <div className="skeleton" aria-busy="true">
      <span className="visually-hidden">Loading…</span>
      {Array.from({ length: rows }, (_, index) => (
        <div key={index} aria-hidden="true">
          <i />
          <i />
          <i />
        </div>
      ))}
    </div>
  );
}

/** A page whose code or data is loading. */
export function SkeletonPage() {
  return (
    <div className="page">
      <div className="skeleton-head" aria-hidden="true">
        <i />
        <i />
      </div>
      <SkeletonRows />
    </div>
  );
}
