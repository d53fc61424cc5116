/** How many cases a property test tries: as many as it says, and many times that in `npm run test:long`. */

const factor = Number(process.env.FLOTILLA_RUNS_FACTOR ?? 1)

export function propertyRuns(usual: number): number {
  return usual * factor
}
