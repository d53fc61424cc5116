/** Which comparisons take longer the longer the values of a row are. */

import { type Comparing, type Condition, familyOf, isLikeness, type Operand } from './filter-types.ts'
import { joinedAlias } from './tables.ts'

/** A longer list of literals is looked up by hash, which reads all of the value. */
const comparedOneByOne = 8

/** Which side of a comparison, 0 or 1, has the values that may take long; undefined: none does. */
export function slowSide({ operator, left, right }: Comparing): 0 | 1 | undefined {
  const columns = [left, right].filter((side) => side.kind === 'column')
  // Texts of other lengths are unequal at once, and literals are short.
  const isQuick = columns.length < 2 && ['=', '<>'].includes(operator) && !columns.some(isJson)
  if (isQuick) return undefined
  const takesTime = isLikeness(operator) ? isColumn : isLong
  if (takesTime(left)) return 0
  return takesTime(right) ? 1 : undefined
}

/** Whether looking `sought` up among so many literals may take long. */
export function isSlowList(sought: Operand, literals: number): boolean {
  return isLong(sought) && literals > (isJson(sought) ? 0 : comparedOneByOne)
}

/** Whether anything in the condition may take long. */
export function canBeSlow(condition: Condition): boolean {
  switch (condition.kind) {
    case 'and':
    case 'or':
      return condition.parts.some(canBeSlow)
    case 'not':
      return canBeSlow(condition.part)
    case 'any':
      return true
    case 'compare':
      return isSlow(condition.operator, condition.left, condition.right)
    case 'between':
      return [condition.low, condition.high].some((side) => isSlow('<=', condition.operand, side))
    case 'in': {
      const columns = condition.items.filter(isColumn)
      const literals = condition.items.length - columns.length
      const inColumns = columns.some((item) => isSlow('=', condition.operand, item))
      return inColumns || isSlowList(condition.operand, literals)
    }
    default:
      return false
  }
}

function isSlow(operator: Comparing['operator'], left: Operand, right: Operand): boolean {
  return slowSide({ operator, left, right }) !== undefined
}

function isColumn(operand: Operand): boolean {
  return operand.kind === 'column'
}

/** Keys are short: an id has at most 512 characters. */
function isLong(operand: Operand): boolean {
  if (operand.kind !== 'column' || operand.column.alias !== joinedAlias) return false
  return ['text', 'json', 'array'].includes(familyOf(operand.column))
}

function isJson(operand: Operand): boolean {
  return operand.kind === 'column' && familyOf(operand.column) === 'json'
}
