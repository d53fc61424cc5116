/** Numbers, sizes and times as people read them. */

const number = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 1 })
const moment = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })

/** With thin spaces between the thousands, never shortened. */
export function count(value: number): string {
  return number.format(value).replaceAll(',', '\u2009')
}

export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let rest = value
  let unit = 0
  while (rest >= 1024 && unit < units.length - 1) {
    rest /= 1024
    unit += 1
  }
  return `${number.format(rest)} ${units[unit]}`
}

/** null for what no clock shows, such as 1e300: agents choose the times of their events. */
export function momentOf(at: string | number): Date | null {
  const date = new Date(at)
  return Number.isNaN(date.getTime()) ? null : date
}

/** In the time zone of the browser. */
export function localTime(at: string | number): string {
  const date = momentOf(at)
  return date === null ? 'no known time' : moment.format(date)
}

export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 10) / 10)} s`
  if (seconds < 90) return `${Math.round(seconds)} s`
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`
  if (seconds < 36 * 3_600) return `${Math.round(seconds / 3_600)} h`
  return `${Math.round(seconds / 86_400)} days`
}

/** `1 agent`, `2 agents`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`
}
