/** The messages between a page, its frames, and the coordinator. Both sides check every message that they receive. */

/** Marks the messages of this version. It changes with every incompatible change, like the path of the frames. */
export const protocol = 'sallyport/frames/1';

/** `card` has the inputs of a card number, its expiry and its verification code in one frame. */
export const fieldTypes = ['card', 'card-number', 'expiry', 'verification-code', 'iban', 'text'] as const;
export type FieldType = (typeof fieldTypes)[number];
export type InputType = Exclude<FieldType, 'card'>;

/** The values that a text field accepts. The page cannot choose a pattern: `valid` would tell it the text bit by bit. */
export type TextFormat = 'any' | 'digits' | 'alphanumeric' | 'us-ssn';

export type CardBrand =
  | 'visa'
  | 'mastercard'
  | 'amex'
  | 'discover'
  | 'diners'
  | 'jcb'
  | 'unionpay'
  | 'maestro'
  | 'unknown';

/** Why an input is not accepted. `required`: nothing was entered before the form was submitted. */
export type FieldErrorCode =
  | 'required'
  | 'incomplete'
  | 'number_invalid'
  | 'not_accepted'
  | 'expired'
  | 'date_invalid'
  | 'iban_invalid'
  | 'value_invalid';

/** The state of a field, as the page gets it. */
export interface FieldState {
  readonly focused: boolean;
  readonly empty: boolean;
  /** Whether the input is a valid value or can become one. */
  readonly valid: boolean;
  /** Whether the input is a valid value. */
  readonly complete: boolean;
  /** Card numbers only. */
  readonly brand?: CardBrand;
  /** What the user is told. An incomplete input is an error once the user has left the field or submitted the form. */
  readonly error?: { readonly code: FieldErrorCode; readonly message: string };
}

type Declarations = Readonly<Record<string, string>>;

/** CSS properties by state. The frame ignores properties and values that are not allowed. */
export interface FrameStyle {
  readonly base?: Declarations;
  readonly ':hover'?: Declarations;
  readonly ':focus'?: Declarations;
  readonly ':invalid'?: Declarations;
  readonly '::placeholder'?: Declarations;
  /** Used in addition if the color scheme is dark. */
  readonly dark?: Omit<FrameStyle, 'dark'>;
}

/** Sent by the page when it connects. Texts are never parsed as HTML. */
export interface FrameOptions {
  readonly label: string;
  readonly lang?: string;
  readonly dir?: 'ltr' | 'rtl';
  /** The computed `color-scheme` of the element that contains the frame. */
  readonly colorScheme?: string;
  readonly style?: FrameStyle;
  readonly placeholder?: string;
  /** Fields only: texts in place of those of the language. */
  readonly errors?: Partial<Record<FieldErrorCode, string>>;
  /** Card numbers only: the brands that are accepted. */
  readonly accept?: readonly CardBrand[];
  /** Fields only: names the field when a submission is rejected. */
  readonly index?: number;
  /** Text fields only. */
  readonly format?: TextFormat;
  /** Text fields only: the name of the token in the result. */
  readonly name?: string;
  /** Reveal frames only. */
  readonly token?: string;
  readonly purpose?: string;
  readonly seconds?: number;
  readonly texts?: Partial<RevealTexts>;
}

export interface RevealTexts {
  readonly show: string;
  readonly hide: string;
  readonly copy: string;
  readonly copied: string;
  readonly denied: string;
  readonly failed: string;
}

export interface FrameProblem {
  readonly code: string;
  readonly message: string;
  readonly requestId?: string;
}

/** The result of a submission for one token. */
export interface CollectedToken {
  readonly id: string;
  readonly type: string;
  readonly container: string;
  /** The masked value. Absent for types that have none, and if the session's rules redact it. */
  readonly masked?: unknown;
}

export type ToFrame =
  | { readonly kind: 'focus' | 'clear' }
  | { readonly kind: 'submit'; readonly id: number; readonly containers: Readonly<Record<string, string>> }
  | {
      readonly kind: 'authorized';
      readonly id: number;
      readonly expiresAt?: string;
      readonly error?: string;
    };

export type ToPage =
  | { readonly kind: 'ready' }
  | { readonly kind: 'failed'; readonly problem: FrameProblem }
  | { readonly kind: 'height'; readonly height: number }
  | { readonly kind: 'state'; readonly state: FieldState }
  | { readonly kind: 'enter' }
  | { readonly kind: 'shown'; readonly shown: boolean }
  | { readonly kind: 'authorize'; readonly id: number; readonly nonce: string }
  | { readonly kind: 'collected'; readonly id: number; readonly tokens: Record<string, CollectedToken> }
  | {
      readonly kind: 'rejected';
      readonly id: number;
      readonly problem: FrameProblem;
      /** The fields that are empty or not valid, by `index`. */
      readonly fields: readonly number[];
    };
