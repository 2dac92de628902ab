/** What users read, by language. */
import type { FieldErrorCode, RevealTexts } from '../../sdk/src/frame-messages.ts';

type CardLabel = 'card-number' | 'date' | 'verification-code';
export type Texts = Readonly<Record<FieldErrorCode | 'expiry' | CardLabel, string>> & RevealTexts;

/** The placeholder of a date, the errors, the texts of reveal frames, and the inputs of a card. The order is that of `names`. */
const languages: Readonly<Record<string, string>> = {
  en: 'MM/YY|Required|Incomplete|This number is not valid|This card is not accepted|This card has expired|This date is not valid|This IBAN is not valid|Not valid|Show|Hide|Copy|Copied|Not allowed|Not available|Card number|Expiry date|Security code',
  de: 'MM/JJ|Pflichtfeld|Unvollständig|Diese Nummer ist ungültig|Diese Karte wird nicht akzeptiert|Diese Karte ist abgelaufen|Dieses Datum ist ungültig|Diese IBAN ist ungültig|Ungültig|Anzeigen|Verbergen|Kopieren|Kopiert|Nicht erlaubt|Nicht verfügbar|Kartennummer|Gültig bis|Prüfnummer',
  fr: 'MM/AA|Obligatoire|Incomplet|Ce numéro n’est pas valide|Cette carte n’est pas acceptée|Cette carte a expiré|Cette date n’est pas valide|Cet IBAN n’est pas valide|Non valide|Afficher|Masquer|Copier|Copié|Non autorisé|Non disponible|Numéro de carte|Date d’expiration|Code de sécurité',
  es: 'MM/AA|Obligatorio|Incompleto|Este número no es válido|Esta tarjeta no se acepta|Esta tarjeta ha caducado|Esta fecha no es válida|Este IBAN no es válido|No válido|Mostrar|Ocultar|Copiar|Copiado|No permitido|No disponible|Número de tarjeta|Fecha de caducidad|Código de seguridad',
  it: 'MM/AA|Obbligatorio|Incompleto|Questo numero non è valido|Questa carta non è accettata|Questa carta è scaduta|Questa data non è valida|Questo IBAN non è valido|Non valido|Mostra|Nascondi|Copia|Copiato|Non consentito|Non disponibile|Numero della carta|Data di scadenza|Codice di sicurezza',
  nl: 'MM/JJ|Verplicht|Onvolledig|Dit nummer is ongeldig|Deze kaart wordt niet geaccepteerd|Deze kaart is verlopen|Deze datum is ongeldig|Deze IBAN is ongeldig|Ongeldig|Tonen|Verbergen|Kopiëren|Gekopieerd|Niet toegestaan|Niet beschikbaar|Kaartnummer|Vervaldatum|Beveiligingscode',
  pt: 'MM/AA|Obrigatório|Incompleto|Este número não é válido|Este cartão não é aceito|Este cartão expirou|Esta data não é válida|Este IBAN não é válido|Não válido|Mostrar|Ocultar|Copiar|Copiado|Não permitido|Não disponível|Número do cartão|Data de validade|Código de segurança',
  pl: 'MM/RR|Wymagane|Niekompletne|Ten numer jest nieprawidłowy|Ta karta nie jest akceptowana|Ta karta straciła ważność|Ta data jest nieprawidłowa|Ten IBAN jest nieprawidłowy|Nieprawidłowe|Pokaż|Ukryj|Kopiuj|Skopiowano|Niedozwolone|Niedostępne|Numer karty|Data ważności|Kod bezpieczeństwa',
  sv: 'MM/ÅÅ|Obligatoriskt|Ofullständigt|Numret är ogiltigt|Kortet accepteras inte|Kortet har gått ut|Datumet är ogiltigt|IBAN är ogiltigt|Ogiltigt|Visa|Dölj|Kopiera|Kopierat|Inte tillåtet|Inte tillgängligt|Kortnummer|Giltigt till|Säkerhetskod',
  tr: 'AA/YY|Zorunlu|Eksik|Bu numara geçersiz|Bu kart kabul edilmiyor|Bu kartın süresi dolmuş|Bu tarih geçersiz|Bu IBAN geçersiz|Geçersiz|Göster|Gizle|Kopyala|Kopyalandı|İzin verilmiyor|Kullanılamıyor|Kart numarası|Son kullanma tarihi|Güvenlik kodu',
  ja: '月/年|必須です|入力が完了していません|番号が正しくありません|このカードは使えません|カードの有効期限が切れています|日付が正しくありません|IBAN が正しくありません|正しくありません|表示|隠す|コピー|コピーしました|許可されていません|利用できません|カード番号|有効期限|セキュリティコード',
  zh: '月/年|必填|不完整|卡号无效|不接受此卡|此卡已过期|日期无效|IBAN 无效|无效|显示|隐藏|复制|已复制|不允许|不可用|卡号|有效期|安全码',
  ar: 'شهر/سنة|مطلوب|غير مكتمل|هذا الرقم غير صالح|هذه البطاقة غير مقبولة|انتهت صلاحية هذه البطاقة|هذا التاريخ غير صالح|رقم IBAN غير صالح|غير صالح|إظهار|إخفاء|نسخ|تم النسخ|غير مسموح|غير متاح|رقم البطاقة|تاريخ الانتهاء|رمز الأمان',
};

const names = [
  ...['expiry', 'required', 'incomplete', 'number_invalid', 'not_accepted', 'expired', 'date_invalid'],
  ...['iban_invalid', 'value_invalid', 'show', 'hide', 'copy', 'copied', 'denied', 'failed'],
  ...['card-number', 'date', 'verification-code'],
];

/** The texts of a language such as `pt-BR`. English if there are none. */
export function textsOf(language: unknown): Texts {
  const [primary = ''] = String(language ?? '')
    .toLowerCase()
    .split(/[-_]/);
  const texts = (Object.hasOwn(languages, primary) ? languages[primary] : languages.en) as string;
  return Object.fromEntries(texts.split('|').map((text, at) => [names[at], text])) as Texts;
}
