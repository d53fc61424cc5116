/** Tables: sorted by any column, filtered by a text that is in the address, with rows to choose where a page acts on several. */

import { type ReactNode, useId, useMemo } from 'react'
import { useParam } from '../data/address.ts'
import { plural } from '../data/format.ts'
import { Empty } from './loaded.tsx'

export interface Column<Row> {
  name: string
  /** The content of the cell. */
  cell: (row: Row) => ReactNode
  /** The value that the column is sorted by; without it the column cannot be sorted. */
  by?: (row: Row) => string | number | null
  /** Right-aligned, with figures of one width. */
  numeric?: boolean
  /** Left out on narrow screens. */
  wide?: boolean
}

interface TableProps<Row> {
  label: string
  columns: readonly Column<Row>[]
  rows: readonly Row[]
  keyOf: (row: Row) => string
  /** The text that the filter looks into; without it there is no filter. */
  textOf?: (row: Row) => string
  /** Shown when there are no rows at all. */
  empty: ReactNode
  /** The rows that are chosen, by their keys. */
  chosen?: ReadonlySet<string>
  onChoose?: (chosen: ReadonlySet<string>) => void
  /** More filters, next to the text. */
  filters?: ReactNode
  /** Prefix of the parameters in the address, where a page has several tables. */
  id?: string
}

export function Table<Row>(props: TableProps<Row>) {
  const { label, columns, rows, keyOf, textOf, empty, chosen, onChoose, filters, id = '' } = props
  const [filter, setFilter] = useParam(`${id}q`)
  const [sort, setSort] = useParam(`${id}sort`)
  const shown = useMemo(
    () => arranged(rows, columns, textOf, filter, sort),
    [rows, columns, textOf, filter, sort],
  )
  const inputId = useId()
  if (rows.length === 0 && filters === undefined) return <>{empty}</>
  const keys = shown.map(keyOf)
  const all = keys.length > 0 && keys.every((key) => chosen?.has(key))
  return (
    <>
      {(textOf || filters) && (
        <div className="filters">
          {textOf && (
            <label htmlFor={inputId}>
              Filter
              <input
                id={inputId}
                type="search"
                data-filter
                value={filter}
                onChange={(event) => setFilter(event.target.value)}
              />
            </label>
          )}
          {filters}
          <span className="dim" role="status">
            {shown.length === rows.length
              ? plural(rows.length, 'row')
              : `${shown.length} of ${plural(rows.length, 'row')}`}
          </span>
        </div>
      )}
      {rows.length === 0 ? (
        empty
      ) : shown.length === 0 ? (
        <Empty title="Nothing matches the filter">
          <button type="button" onClick={() => setFilter('')}>
            Clear the filter
          </button>
        </Empty>
      ) : (
        // A box that scrolls must be reachable by keyboard.
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls sideways
        // biome-ignore lint/a11y/useSemanticElements: a section would be a landmark of its own for each table
        <div className="scroll" role="group" aria-label={label} tabIndex={0}>
          <table>
            <thead>
              <tr>
                {onChoose && (
                  <th scope="col" className="choice">
                    <input
                      type="checkbox"
                      aria-label="Choose all rows"
                      checked={all}
                      onChange={() => onChoose(new Set(all ? [] : keys))}
                    />
                  </th>
                )}
                {columns.map((column) => (
                  <Heading key={column.name} column={column} sort={sort} onSort={setSort} />
                ))}
              </tr>
            </thead>
            <tbody>
              {shown.map((row) => {
                const key = keyOf(row)
                return (
                  <tr key={key} className={chosen?.has(key) ? 'chosen' : undefined}>
                    {onChoose && (
                      <td className="choice">
                        <input
                          type="checkbox"
                          aria-label={`Choose ${key}`}
                          checked={chosen?.has(key) ?? false}
                          onChange={() => onChoose(toggled(chosen, key))}
                        />
                      </td>
                    )}
                    {columns.map((column, at) => (
                      <Cell key={column.name} column={column} row={row} isFirst={at === 0} />
                    ))}
                  </tr>
                )
              })}
            </tbody>
          </table>
        </div>
      )}
    </>
  )
}

function Cell<Row>({ column, row, isFirst }: { column: Column<Row>; row: Row; isFirst: boolean }) {
  const className = classOf(column)
  if (!isFirst) return <td className={className}>{column.cell(row)}</td>
  return (
    <th scope="row" className={className}>
      {column.cell(row)}
    </th>
  )
}

function Heading<Row>({
  column,
  sort,
  onSort,
}: {
  column: Column<Row>
  sort: string
  onSort: (sort: string) => void
}) {
  const { name, by } = column
  const direction = sort === name ? 'ascending' : sort === `-${name}` ? 'descending' : undefined
  const className = classOf(column)
  if (!by) {
    return (
      <th scope="col" className={className}>
        {name}
      </th>
    )
  }
  return (
    <th scope="col" className={className} aria-sort={direction}>
      <button
        type="button"
        className="sort"
        onClick={() => onSort(direction === 'ascending' ? `-${name}` : name)}
      >
        {name}
        <span aria-hidden="true">
          {direction === 'ascending' ? ' ↑' : direction === 'descending' ? ' ↓' : ''}
        </span>
      </button>
    </th>
  )
}

function classOf<Row>({ numeric, wide }: Column<Row>): string | undefined {
  return [numeric && 'numeric', wide && 'wide'].filter(Boolean).join(' ') || undefined
}

function toggled(chosen: ReadonlySet<string> | undefined, key: string): ReadonlySet<string> {
  const next = new Set(chosen)
  if (!next.delete(key)) next.add(key)
  return next
}

function arranged<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  textOf: ((row: Row) => string) | undefined,
  filter: string,
  sort: string,
): readonly Row[] {
  const wanted = filter.trim().toLowerCase()
  const found =
    wanted === '' || !textOf ? rows : rows.filter((row) => textOf(row).toLowerCase().includes(wanted))
  const by = columns.find(({ name }) => name === sort.replace(/^-/, ''))?.by
  if (!by) return found
  const sign = sort.startsWith('-') ? -1 : 1
  return [...found].sort((a, b) => sign * compare(by(a), by(b)))
}

/** Missing values come first. */
function compare(a: string | number | null, b: string | number | null): number {
  if (a === b) return 0
  if (a === null || b === null) return a === null ? -1 : 1
  if (typeof a === 'number' && typeof b === 'number') return a - b
  return String(a).localeCompare(String(b), 'en', { numeric: true })
}
